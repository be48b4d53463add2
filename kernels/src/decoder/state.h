// The attention state of one sequence and its canonical form (reference sections 8, 9 and 11).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/config.h"

namespace kernels {

// A row is never written after it was made: a change replaces the pointer. So layers share the rows that they have not replaced, and a
// step that fails leaves the state that it started from as it was.
using RowPtr = std::shared_ptr<const float[]>;

// A row of `width` values, plus `added` where given. Throws KernelError when one of them is not finite: a state holds no NaN, and -inf only
// where nothing was written.
RowPtr make_row(const float* values, int width, const float* added = nullptr);

struct Compression {              // one compressor's running state
  std::vector<RowPtr> rows;       // [n] finished rows, width d; row t covers tokens r*t .. r*t+r-1
  std::vector<RowPtr> kv;         // [c*r], width c*d; null: zeros, never written
  std::vector<RowPtr> score;      // [c*r], width c*d; null: -inf, never written
};

struct LayerState {
  std::vector<RowPtr> window;     // [W], width hd, slot = position mod W; null: zeros, never written
  Compression main;               // ratio != 0, d = hd
  Compression index;              // ratio == 4, d = index_head_dim
};

enum class Numerics { official, fp32 };

// One component of one layer in canonical order.
struct Component {
  int layer;
  const char* name;               // window, rows, kv_state, score_state, index_rows, index_kv_state, index_score_state
  std::int64_t offset;            // into the canonical values
  int rows, width;
};

class State {
 public:
  State(std::shared_ptr<const Config> config, Numerics numerics, std::string identity);

  std::int64_t position = 0;      // tokens processed
  // [L]. Forks share a layer until one of them goes through it; a layer that several states hold is changed for all of them or copied first.
  std::vector<std::shared_ptr<LayerState>> layers;

  const Config& config() const { return *config_; }
  Numerics numerics() const { return numerics_; }
  const std::string& identity() const { return identity_; }  // of the checkpoint whose weights made it

  std::int64_t value_count() const;
  std::vector<Component> components() const;
  // Canonical FP32 values [value_count()].
  void write_values(float* out) const;
  // Replaces the whole content by what write_values() of a state at `new_position` gave.
  void read_values(const float* values, std::int64_t new_position);

  std::string serialise() const;
  // Throws KernelError when the bytes are of another format, checkpoint, numerics mode or length.
  void restore(const std::string& bytes);

  // Adds a canonical-order delta in the precision of T, cast to FP32 (study 2.4.3). Values whose `before` and `after` have equal bits are
  // kept, so -inf slots stay. Throws StateMismatch before anything is changed.
  template <class T> void add_delta(const T* delta, const float* before, const float* after, std::int64_t count);

 private:
  std::shared_ptr<const Config> config_;
  Numerics numerics_;
  std::string identity_;
};

// Values in the canonical state when `tokens` tokens have been processed.
std::int64_t state_value_count(const Config& config, std::int64_t tokens);

}  // namespace kernels
