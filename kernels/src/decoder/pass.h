// One step in flight: bundles of rows, their items (a token each) and activations, and the work that all stages share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "decoder/arena.h"
#include "decoder/intervention.h"
#include "decoder/journal.h"
#include "decoder/model.h"
#include "decoder/read_ahead.h"
#include "decoder/rope.h"
#include "decoder/state.h"
#include "decoder/thread_pool.h"
#include "ops/ops.h"

namespace kernels {

static_assert(kMaxHcMult <= kMostStreams);

struct RowResult {
  int token = 0;
  std::vector<float> logits;               // [V], the last token's
  std::vector<std::pair<Capture, CaptureArray>> captures;
};

// Rows of equal tokens whose values are the same so far, as they share the layers that they have passed and nothing has changed one of them:
// what they share is computed once. Bundles only ever part (Pass::part); the stages see one row in each.
struct Bundle {
  std::vector<int> rows;                   // indices into the step's rows, ascending
  std::int64_t first_item;                 // its items are first_item .. first_item + tokens - 1
  int tokens;
  int lead() const { return rows.front(); }
};

struct Item {
  int bundle = 0;
  int t = 0;                               // token index within the row
  bool last = false;                       // last token of its row
  std::int64_t position = 0;               // absolute
  int token = 0;
  const Angles *plain = nullptr, *compressed = nullptr;  // rotation at this position
};

struct RowInFlight {
  State* state;
  const Intervention* intervention;
  RowResult* result;
  Journal journal{};
};

// y = W x for rows [begin, end) of W and a batch of vectors.
struct LinearTask {
  const Matrix* w;
  int begin, end;
  const float* const* x;                   // batch pointers to [cols]
  float* const* y;                         // batch pointers to [rows]; row r is written at y[b][r]
  int batch;
  bool round;
};

// The work in a product, and the unit of what runs beside one: some seven picoseconds with one vector. It decides who does what, and so never a
// bit.
std::int64_t work_of(const LinearTask& task);

struct Pass {
  const Model& model;
  const Ops& ops;
  const Rope& rope;
  ThreadPool& pool;
  ReadAhead& read_ahead;
  const bool official;
  Arena& arena;
  std::vector<RowInFlight> rows{};
  std::vector<Bundle> bundles{};
  std::vector<Item> items{};                 // of the bundles
  // room for the items of every row on its own
  Buffer streams{};                          // [items, hc*D] residual streams
  Buffer x{};                                // [items, D] normed block input
  Buffer x8{};                               // [items, D] Q8_128(x) in official numerics
  Buffer y{};                                // [items, D] block output
  Buffer mix_post{}, mix_comb{};              // [items, hc], [items, hc*hc] of the block in flight
  std::vector<float*> scratch{};             // [threads] for Ops::linear
  std::vector<std::int64_t> origin{};        // what part() returns

  std::int64_t count() const { return static_cast<std::int64_t>(items.size()); }

  // Runs tasks with their output rows split over the threads by the work in them.
  void linear(std::span<const LinearTask> tasks) {
    linear(tasks, 0, [](int) {});
  }
  void linear(std::initializer_list<LinearTask> tasks) { linear(std::span(tasks.begin(), tasks.size())); }
  // The same, and beside them, on one thread, aside(thread), which counts as `aside_work` (work_of) in the split. They must not need each other.
  template <class Aside> void linear(std::span<const LinearTask> tasks, std::int64_t aside_work, const Aside& aside) {
    const Split split = split_of(tasks, aside_work);
    pool.run(split.parts, 1, [&](int thread, std::int64_t begin, std::int64_t end) {
      if (begin == 0) aside(thread);
      run(split, thread, begin, end);
    });
  }
  void run(const LinearTask& t, int thread) { ops.linear(*t.w, t.begin, t.end, t.x, t.y, t.batch, t.round, scratch[thread]); }
  // The whole of W for all items, taking the quantised input where the official linear does (reference section 4).
  LinearTask task(const Matrix& w, const Buffer& plain, const Buffer& quantised, const Buffer& out, bool round) const;
  // Calls body(item) for all items, split over the threads.
  template <class Body> void for_each_item(Body body) {
    pool.run(count(), 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }

  RowInFlight& lead(const Item& item) { return rows[static_cast<std::size_t>(bundles[static_cast<std::size_t>(item.bundle)].lead())]; }

  // Parts every bundle into rows of equal key_of(row), a comparable value. Returns, until the next call, the item that each item's values were
  // copied from, itself for those that stayed.
  template <class KeyOf> const std::vector<std::int64_t>& part(KeyOf key_of);

  // Whether a row of the item's bundle captures this.
  bool captures(const Item& item, Capture what) const;
  // Copies what an item has at a layer, [width], to the rows of its bundle that capture it; integers shorter than their width too.
  void capture(std::int64_t item, Capture what, int layer, const float* values, std::int64_t width);
  void capture(std::int64_t item, Capture what, int layer, std::span<const int> values, std::int64_t width);

 private:
  // Products, and what runs beside them, in a line, cut into parts of equal work.
  struct Split {
    std::span<const LinearTask> tasks;
    std::int64_t aside, total;  // work
    std::int64_t parts;
  };
  Split split_of(std::span<const LinearTask> tasks, std::int64_t aside_work) const;
  void run(const Split& split, int thread, std::int64_t part_begin, std::int64_t part_end);

  // Takes rows away from a bundle: a new one with items of its own.
  void detach(int bundle, std::vector<int> leaving);
  // Calls body(array, offset) for every row of the item's bundle that captures this.
  template <class Body> void for_each_capture(std::int64_t item, Capture what, int layer, std::int64_t width, Body body);
};

template <class KeyOf> const std::vector<std::int64_t>& Pass::part(KeyOf key_of) {
  origin.resize(items.size());
  std::iota(origin.begin(), origin.end(), 0);
  for (int b = 0, count = static_cast<int>(bundles.size()); b < count; ++b) {
    if (bundles[static_cast<std::size_t>(b)].rows.size() == 1) continue;
    const std::vector<int> all = bundles[static_cast<std::size_t>(b)].rows;
    const auto stay = key_of(all.front());
    if (std::all_of(all.begin() + 1, all.end(), [&](int row) { return key_of(row) == stay; })) continue;
    std::map<std::decay_t<decltype(stay)>, std::vector<int>> parts;
    for (const int row : all) parts[key_of(row)].push_back(row);
    for (auto& [key, rows_of_key] : parts)
      if (key != stay) detach(b, std::move(rows_of_key));
    bundles[static_cast<std::size_t>(b)].rows = std::move(parts[stay]);
  }
  return origin;
}

// The stages, in the order in which a token meets them. Each reads pass.x and writes pass.y.
void hyper_connection_pre(Pass& pass, const HyperConnection& hc, const std::vector<float>& norm);  // streams -> x, x8, mix_post, mix_comb
void attention(Pass& pass, int layer);
void feed_forward(Pass& pass, int layer);
void hyper_connection_post(Pass& pass);                                                            // y, streams -> streams
void head(Pass& pass);                                                                             // streams -> logits of results

}  // namespace kernels
