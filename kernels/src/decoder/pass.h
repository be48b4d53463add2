// One step in flight: the items (a token of a row each), their activations, and the work that all stages share.
#pragma once

#include <cstdint>
#include <memory>
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

constexpr int kMaxStreams = kMaxHcMult;

struct RowResult {
  int token = 0;
  std::vector<float> logits;               // [V], the last token's
  std::vector<std::pair<Capture, CaptureArray>> captures;
};

struct Item {
  int row = 0;                             // index into the step's rows
  int t = 0;                               // token index within the row
  bool last = false;                       // last token of its row
  std::int64_t position = 0;               // absolute
  int token = 0;
  const Intervention* intervention = nullptr;
  RowResult* result = nullptr;
  const Angles *plain = nullptr, *compressed = nullptr;  // rotation at this position
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

struct Pass {
  const Model& model;
  const Ops& ops;
  const Rope& rope;
  ThreadPool& pool;
  ReadAhead& read_ahead;
  const bool official;
  Arena& arena;
  std::vector<State*> states{};              // [rows]
  std::vector<Journal> journals{};           // [rows]
  std::vector<int> first_item{};             // [rows + 1]: items of row r are first_item[r] .. first_item[r+1]-1
  std::vector<Item> items{};
  Buffer streams{};                          // [items, hc*D] residual streams
  Buffer next_streams{};                     // [items, hc*D]
  Buffer x{};                                // [items, D] normed block input
  Buffer x8{};                               // [items, D] Q8_128(x) in official numerics
  Buffer y{};                                // [items, D] block output
  Buffer mix_post{}, mix_comb{};              // [items, hc], [items, hc*hc] of the block in flight
  std::vector<float*> scratch{};             // [threads] for Ops::linear

  std::int64_t count() const { return static_cast<std::int64_t>(items.size()); }

  // Runs tasks with their output rows split over the threads by the work in them.
  void linear(const std::vector<LinearTask>& tasks);
  // The whole of W for all items, taking the quantised input where the official linear does (reference section 4).
  LinearTask task(const Matrix& w, const Buffer& plain, const Buffer& quantised, const Buffer& out, bool round) const;
  // Calls body(item) for all items, split over the threads.
  template <class Body> void for_each_item(Body body) {
    pool.run(count(), 1, [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }

  // Where an item's capture of a layer goes, or nullptr when it is not asked for. `width` is the number of values of one layer.
  float* capture(std::int64_t item, Capture what, int layer, std::int64_t width);
  std::int32_t* capture_integers(std::int64_t item, Capture what, int layer, std::int64_t width);
  void capture_copy(std::int64_t item, Capture what, int layer, const float* values, std::int64_t width);
};

// The stages, in the order in which a token meets them. Each reads pass.x and writes pass.y.
void hyper_connection_pre(Pass& pass, const HyperConnection& hc, const std::vector<float>& norm);  // streams -> x, x8, mix_post, mix_comb
void attention(Pass& pass, int layer);
void feed_forward(Pass& pass, int layer);
void hyper_connection_post(Pass& pass);                                                            // y, streams -> streams
void head(Pass& pass);                                                                             // streams -> logits of results

}  // namespace kernels
