#include "decoder/pass.h"

#include <algorithm>
#include <cstring>

namespace kernels {
namespace {

constexpr int kRowBlock = 8;  // splits between threads fall on multiples of it

std::int64_t work(const LinearTask& t) { return static_cast<std::int64_t>(t.end - t.begin) * t.w->cols * t.batch; }

// The place of a capture's layer among the captured ones, or -1.
int captured_index(const Intervention& intervention, int layer) {
  if (!intervention.capture_layers) return layer;
  const std::vector<int>& layers = *intervention.capture_layers;
  const auto at = std::find(layers.begin(), layers.end(), layer);
  return at == layers.end() ? -1 : static_cast<int>(at - layers.begin());
}

CaptureArray* find(RowResult& result, Capture what) {
  for (auto& [capture, array] : result.captures)
    if (capture == what) return &array;
  return nullptr;
}

// Offset of (token, layer) in a capture whose row has `width` values, or -1 when it is not captured.
std::int64_t offset(const Item& item, Capture what, const CaptureArray& array, int layer, std::int64_t width) {
  if (!by_layer(what)) return item.t * width;
  const int index = captured_index(*item.intervention, layer);
  return index < 0 ? -1 : (item.t * array.shape[1] + index) * width;
}

}  // namespace

void Pass::linear(const std::vector<LinearTask>& tasks) {
  std::int64_t total = 0;
  for (const LinearTask& t : tasks) total += work(t);
  const int parts = pool.threads();
  pool.run(parts, 1, [&](int thread, std::int64_t part_begin, std::int64_t part_end) {
    const std::int64_t from = total * part_begin / parts, to = total * part_end / parts;
    std::int64_t done = 0;
    for (const LinearTask& t : tasks) {
      const std::int64_t per_block = static_cast<std::int64_t>(t.w->cols) * t.batch * kRowBlock;
      // a block belongs to the part in which its first multiplication falls
      const auto block_at = [&](std::int64_t at) { return std::clamp<std::int64_t>((at - done + per_block - 1) / per_block, 0, (t.end - t.begin + kRowBlock - 1) / kRowBlock); };
      const std::int64_t first = from <= done ? 0 : block_at(from), last = to <= done ? 0 : block_at(to);
      if (first < last)
        ops.linear(*t.w, t.begin + static_cast<int>(first) * kRowBlock, std::min<int>(t.end, t.begin + static_cast<int>(last) * kRowBlock), t.x,
                   t.y, t.batch, t.round, scratch[thread]);
      done += work(t);
    }
  });
}

LinearTask Pass::task(const Matrix& w, const Buffer& plain, const Buffer& quantised, const Buffer& out, bool round) const {
  const Buffer& input = official && w.quantised() ? quantised : plain;
  return {&w, 0, w.rows, input.rows(), out.rows(), static_cast<int>(count()), round && official};
}

float* Pass::capture(std::int64_t i, Capture what, int layer, std::int64_t width) {
  CaptureArray* array = find(*items[i].result, what);
  if (array == nullptr) return nullptr;
  const std::int64_t at = offset(items[i], what, *array, layer, width);
  return at < 0 ? nullptr : array->floats.data() + at;
}

std::int32_t* Pass::capture_integers(std::int64_t i, Capture what, int layer, std::int64_t width) {
  CaptureArray* array = find(*items[i].result, what);
  if (array == nullptr) return nullptr;
  const std::int64_t at = offset(items[i], what, *array, layer, width);
  return at < 0 ? nullptr : array->integers.data() + at;
}

void Pass::capture_copy(std::int64_t i, Capture what, int layer, const float* values, std::int64_t width) {
  if (float* out = capture(i, what, layer, width)) std::memcpy(out, values, sizeof(float) * width);
}

}  // namespace kernels
