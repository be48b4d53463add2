#include "decoder/pass.h"

#include <algorithm>

namespace kernels {
namespace {

// Splits between threads fall on multiples of it: the rows that Ops::linear takes side by side, but for the smallest matrices.
int row_block(const LinearTask& t) { return t.end - t.begin < 64 ? 4 : 16; }

// Time of one weight, roughly. With one row wider formats take longer to come. Few rows go through a matrix one after another, and all but the
// first find it in a cache; with many the products are all there is.
std::int64_t weight_work(const LinearTask& t) {
  const std::int64_t one = t.w->format == Format::F32 ? 15 : t.w->format == Format::BF16 ? 11 : t.w->format == Format::E4M3 ? 9 : 8;
  return t.batch < 4 ? one * (t.batch + 1) / 2 : std::max<std::int64_t>(2 * one, 2 * t.batch);
}

constexpr std::int64_t kAlone = 400'000;  // of work: less isn't worth a join

constexpr std::uint64_t kStart = 4096;  // bytes

// (GCC takes a function that only prefetches for one without effect, unless it is inlined early)
[[gnu::always_inline]] inline void fetch(const std::uint8_t* p, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += 64) __builtin_prefetch(p + at);
}

// Asks for what Ops::linear meets first: the rows that it takes side by side, and the scales, of which it looks at all.
[[gnu::always_inline]] inline void fetch_start(const LinearTask& t) {
  const auto bytes = [](std::uint64_t row, int rows) { return std::min(kStart, row * static_cast<std::uint64_t>(rows)); };
  const std::uint64_t row = bytes_of(t.w->format, static_cast<std::uint64_t>(t.w->cols)), blocks = static_cast<std::uint64_t>(t.w->cols) / 32;
  const std::uint64_t begin = static_cast<std::uint64_t>(t.begin);
  fetch(t.w->data + begin * row, bytes(row, std::min(16, t.end - t.begin)));
  if (t.w->format == Format::E2M1) fetch(t.w->scale + begin * blocks, bytes(blocks, t.end - t.begin));
}

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

std::int64_t work_of(const LinearTask& t) { return static_cast<std::int64_t>(t.end - t.begin) * t.w->cols * weight_work(t); }

Pass::Split Pass::split_of(std::span<const LinearTask> tasks, std::int64_t aside_work) const {
  std::int64_t total = aside_work;
  for (const LinearTask& t : tasks) total += work_of(t);
  return {tasks, aside_work, total, total < kAlone ? 1 : pool.threads()};
}

void Pass::run(const Split& split, int thread, std::int64_t part_begin, std::int64_t part_end) {
  const std::int64_t from = split.total * part_begin / split.parts, to = split.total * part_end / split.parts;
  std::int64_t done = split.aside;
  LinearTask next{};  // runs as soon as what comes after it is on its way
  for (const LinearTask& t : split.tasks) {
    const int block = row_block(t);
    const std::int64_t per_block = static_cast<std::int64_t>(t.w->cols) * block * weight_work(t);
    // a block belongs to the part in which its first multiplication falls
    const auto block_at = [&](std::int64_t at) { return std::clamp<std::int64_t>((at - done + per_block - 1) / per_block, 0, (t.end - t.begin + block - 1) / block); };
    const std::int64_t first = from <= done ? 0 : block_at(from), last = to <= done ? 0 : block_at(to);
    done += work_of(t);
    if (first >= last) continue;
    LinearTask mine = t;
    mine.begin = t.begin + static_cast<int>(first) * block, mine.end = std::min<int>(t.end, t.begin + static_cast<int>(last) * block);
    fetch_start(mine);
    if (next.w != nullptr) run(next, thread);
    next = mine;
  }
  if (next.w != nullptr) run(next, thread);
}

LinearTask Pass::task(const Matrix& w, const Buffer& plain, const Buffer& quantised, const Buffer& out, bool round) const {
  const Buffer& input = official && w.quantised() ? quantised : plain;
  return {&w, 0, w.rows, input.rows(), out.rows(), static_cast<int>(count()), round && official};
}

void Pass::detach(int bundle, std::vector<int> leaving) {
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

void Pass::capture(std::int64_t i, Capture what, int layer, std::span<const int> values, std::int64_t width) {
  for_each_capture(i, what, layer, width,
                   [&](CaptureArray& array, std::int64_t at) { std::copy(values.begin(), values.end(), array.integers.data() + at); });
}

}  // namespace kernels
