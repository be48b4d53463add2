#include "decoder/pass.h"

#include <algorithm>

namespace kernels {
namespace {

// Splits between threads fall on multiples of it: the rows that Ops::linear takes side by side, but for the smallest matrices.
int row_block(const LinearTask& t) { return t.end - t.begin < 64 ? 4 : 16; }

// Time of one weight, roughly: with one row wider formats take longer to come, with many the products are all there is. It decides who does
// what, and so never a bit.
std::int64_t weight_work(const LinearTask& t) {
  if (t.batch > 1) return t.batch;
  return t.w->format == Format::F32 ? 15 : t.w->format == Format::BF16 ? 11 : t.w->format == Format::E4M3 ? 9 : 8;
}

constexpr std::int64_t kAlone = 100'000;  // of work, about two microseconds: less isn't worth a join

std::int64_t work(const LinearTask& t) { return static_cast<std::int64_t>(t.end - t.begin) * t.w->cols * weight_work(t); }

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

// Where (token, layer) stands in a row's capture of so many values a layer, or -1 when it is not captured.
std::int64_t offset(const RowInFlight& row, int t, Capture what, const CaptureArray& array, int layer, std::int64_t width) {
  if (!by_layer(what)) return t * width;
  const int index = captured_index(*row.intervention, layer);
  return index < 0 ? -1 : (t * array.shape[1] + index) * width;
}

}  // namespace

void Pass::linear(const std::vector<LinearTask>& tasks) {
  std::int64_t total = 0;
  for (const LinearTask& t : tasks) total += work(t);
  const int parts = total < kAlone ? 1 : pool.threads();
  pool.run(parts, 1, [&](int thread, std::int64_t part_begin, std::int64_t part_end) {
    const std::int64_t from = total * part_begin / parts, to = total * part_end / parts;
    std::int64_t done = 0;
    for (const LinearTask& t : tasks) {
      const int block = row_block(t);
      const std::int64_t per_block = static_cast<std::int64_t>(t.w->cols) * block * weight_work(t);
      // a block belongs to the part in which its first multiplication falls
      const auto block_at = [&](std::int64_t at) { return std::clamp<std::int64_t>((at - done + per_block - 1) / per_block, 0, (t.end - t.begin + block - 1) / block); };
      const std::int64_t first = from <= done ? 0 : block_at(from), last = to <= done ? 0 : block_at(to);
      if (first < last)
        ops.linear(*t.w, t.begin + static_cast<int>(first) * block, std::min<int>(t.end, t.begin + static_cast<int>(last) * block), t.x,
                   t.y, t.batch, t.round, scratch[thread]);
      done += work(t);
    }
  });
}

LinearTask Pass::task(const Matrix& w, const Buffer& plain, const Buffer& quantised, const Buffer& out, bool round) const {
  const Buffer& input = official && w.quantised() ? quantised : plain;
  return {&w, 0, w.rows, input.rows(), out.rows(), static_cast<int>(count()), round && official};
}

void Pass::detach(int bundle, std::vector<int> leaving, std::vector<std::int64_t>& origin) {
  const std::int64_t first = bundles[static_cast<std::size_t>(bundle)].first_item;
  const int fresh = static_cast<int>(bundles.size()), tokens = bundles[static_cast<std::size_t>(bundle)].tokens;
  bundles.push_back({std::move(leaving), count(), tokens});
  for (std::int64_t i = first; i < first + tokens; ++i) {
    const std::int64_t to = count();
    for (const Buffer* values : {&streams, &x, &x8, &mix_post, &mix_comb}) std::copy_n((*values)[i], values->width(), (*values)[to]);
    items.push_back(items[static_cast<std::size_t>(i)]);
    items.back().bundle = fresh;
    origin.push_back(i);
  }
}

template <class Body> void Pass::for_each_capture(std::int64_t i, Capture what, int layer, std::int64_t width, Body body) {
  const Item& item = items[static_cast<std::size_t>(i)];
  for (const int r : bundles[static_cast<std::size_t>(item.bundle)].rows) {
    const RowInFlight& row = rows[static_cast<std::size_t>(r)];
    CaptureArray* array = find(*row.result, what);
    if (array == nullptr) continue;
    if (const std::int64_t at = offset(row, item.t, what, *array, layer, width); at >= 0) body(*array, at);
  }
}

bool Pass::captures(const Item& item, Capture what) const {
  const std::vector<int>& all = bundles[static_cast<std::size_t>(item.bundle)].rows;
  return std::any_of(all.begin(), all.end(), [&](int row) { return rows[static_cast<std::size_t>(row)].intervention->captures(what); });
}

void Pass::capture(std::int64_t i, Capture what, int layer, const float* values, std::int64_t width) {
  for_each_capture(i, what, layer, width, [&](CaptureArray& array, std::int64_t at) { std::copy_n(values, width, array.floats.data() + at); });
}

void Pass::capture(std::int64_t i, Capture what, int layer, const std::vector<int>& values, std::int64_t width) {
  for_each_capture(i, what, layer, width,
                   [&](CaptureArray& array, std::int64_t at) { std::copy(values.begin(), values.end(), array.integers.data() + at); });
}

}  // namespace kernels
