#include "decoder/state.h"

#include <cstring>
#include <limits>

#include "checkpoint/errors.h"
#include "decoder/finite.h"

namespace kernels {
namespace {

constexpr char kMagic[] = "MOESTATE";            // 8 bytes, without the terminating zero
constexpr std::uint32_t kFormatVersion = 1;
constexpr std::size_t kHeaderBytes = 8 + 4 + 4 + 8 + 8 + 64;  // magic, version, numerics, tokens, values, checkpoint identity (hex)

int overlap(int ratio) { return ratio == 4 ? 2 : 1; }

// Calls visit(layer, name, rows, row count, width, fill) for each component in canonical order; reference section 11.
template <class LayerStates, class Visit> void for_each_component(const Config& c, const LayerStates& layers, Visit visit) {
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  for (int l = 0; l < c.num_hidden_layers; ++l) {
    auto& s = *layers[l];
    const int ratio = c.compress_ratios[l], half = overlap(ratio);
    visit(l, "window", s.window, c.head_dim, 0.0f);
    if (ratio == 0) continue;
    visit(l, "rows", s.main.rows, c.head_dim, 0.0f);
    visit(l, "kv_state", s.main.kv, half * c.head_dim, 0.0f);
    visit(l, "score_state", s.main.score, half * c.head_dim, minus_infinity);
    if (ratio != 4) continue;
    visit(l, "index_rows", s.index.rows, c.index_head_dim, 0.0f);
    visit(l, "index_kv_state", s.index.kv, half * c.index_head_dim, 0.0f);
    visit(l, "index_score_state", s.index.score, half * c.index_head_dim, minus_infinity);
  }
}

template <class T> void put(std::string& out, const T& value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }
template <class T> T take(const char*& p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  p += sizeof value;
  return value;
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, 4) == 0; }

}  // namespace

RowPtr make_row(const float* values, int width, const float* added) {
  auto row = std::make_shared_for_overwrite<float[]>(width);
  if (added == nullptr) std::memcpy(row.get(), values, sizeof(float) * width);
  else for (int i = 0; i < width; ++i) row[i] = values[i] + added[i];
  if (!all_finite(row.get(), width)) throw KernelError("state: a value that is not finite was about to be written");
  return row;
}

State::State(std::shared_ptr<const Config> config, Numerics numerics, std::string identity)
    : config_(std::move(config)), numerics_(numerics), identity_(std::move(identity)) {
  const Config& c = *config_;
  layers.resize(c.num_hidden_layers);
  for (int l = 0; l < c.num_hidden_layers; ++l) {
    const int ratio = c.compress_ratios[l], slots = overlap(ratio) * ratio;
    const auto layer = std::make_shared<LayerState>();
    layer->window.resize(c.sliding_window);
    layer->main.kv.resize(slots);
    layer->main.score.resize(slots);
    if (ratio == 4) {
      layer->index.kv.resize(slots);
      layer->index.score.resize(slots);
    }
    layers[l] = layer;
  }
}

std::int64_t State::value_count() const { return state_value_count(*config_, position); }

std::vector<Component> State::components() const {
  std::vector<Component> out;
  std::int64_t offset = 0;
  for_each_component(*config_, layers, [&](int layer, const char* name, const std::vector<RowPtr>& rows, int width, float) {
    out.push_back({layer, name, offset, static_cast<int>(rows.size()), width});
    offset += static_cast<std::int64_t>(rows.size()) * width;
  });
  return out;
}

void State::write_values(float* out) const {
  for_each_component(*config_, layers, [&](int, const char*, const std::vector<RowPtr>& rows, int width, float fill) {
    for (const RowPtr& row : rows) {
      if (row) std::memcpy(out, row.get(), sizeof(float) * width);
      else for (int i = 0; i < width; ++i) out[i] = fill;
      out += width;
    }
  });
}

void State::read_values(const float* values, std::int64_t new_position) {
  for (int l = 0; l < config_->num_hidden_layers; ++l) {
    const int ratio = config_->compress_ratios[l];
    layers[l] = std::make_shared<LayerState>(*layers[l]);  // forks keep theirs
    layers[l]->main.rows.resize(ratio ? new_position / ratio : 0);
    layers[l]->index.rows.resize(ratio == 4 ? new_position / 4 : 0);
  }
  for_each_component(*config_, layers, [&](int, const char*, std::vector<RowPtr>& rows, int width, float) {
    for (RowPtr& row : rows) {
      const auto fresh = std::make_shared<float[]>(width);
      std::memcpy(fresh.get(), values, sizeof(float) * width);
      row = fresh;
      values += width;
    }
  });
  position = new_position;
}

std::string State::serialise() const {
  const std::int64_t count = value_count();
  std::string out;
  out.reserve(kHeaderBytes + 4 * count);
  out.append(kMagic, 8);
  put(out, kFormatVersion);
  put(out, static_cast<std::uint32_t>(numerics_ == Numerics::official ? 0 : 1));
  put(out, position);
  put(out, count);
  out += identity_;
  std::vector<float> values(count);
  write_values(values.data());
  out.append(reinterpret_cast<const char*>(values.data()), 4 * values.size());  // hosts are little-endian: x86-64 and AArch64
  return out;
}

void State::restore(const std::string& bytes) {
  const char* p = bytes.data();
  if (bytes.size() < kHeaderBytes || std::memcmp(p, kMagic, 8) != 0) throw KernelError("state: not a serialised decoder state");
  p += 8;
  const auto version = take<std::uint32_t>(p);
  if (version != kFormatVersion) throw KernelError("state: found format version " + std::to_string(version) + ", allowed: 1");
  const auto numerics = take<std::uint32_t>(p);
  if (numerics != (numerics_ == Numerics::official ? 0u : 1u)) throw KernelError("state: made by the other numerics mode");
  const auto tokens = take<std::int64_t>(p);
  const auto count = take<std::int64_t>(p);
  if (std::memcmp(p, identity_.data(), 64) != 0) throw KernelError("state: made by another checkpoint, " + std::string(p, 12));
  p += 64;
  if (tokens < 0 || tokens > config_->max_position_embeddings || count != state_value_count(*config_, tokens) ||
      bytes.size() != kHeaderBytes + 4 * static_cast<std::size_t>(count))
    throw KernelError("state: found " + std::to_string(bytes.size()) + " bytes for " + std::to_string(tokens) + " tokens, which is not what this geometry has");
  std::vector<float> values(count);
  std::memcpy(values.data(), p, 4 * values.size());
  read_values(values.data(), tokens);
}

template <class T> void State::add_delta(const T* delta, const float* before, const float* after, std::int64_t count) {
  if (count != value_count())
    throw StateMismatch("delta: found " + std::to_string(count) + " values, the state has " + std::to_string(value_count()));
  std::vector<float> values(count);
  write_values(values.data());
  std::int64_t wrong_before = 0, wrong_after = 0, first = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!same_bits(values[i], before[i])) {
      if (wrong_before++ == 0) first = i;
      continue;
    }
    if (same_bits(before[i], after[i])) continue;
    values[i] = static_cast<float>(static_cast<T>(values[i]) + delta[i]);
    if (!same_bits(values[i], after[i]) && wrong_after++ == 0 && first < 0) first = i;
  }
  if (wrong_before || wrong_after)
    throw StateMismatch("state delta: " + std::to_string(wrong_before) + " values differ before and " + std::to_string(wrong_after) +
                        " after the addition, the first at " + std::to_string(first));
  read_values(values.data(), position);
}
template void State::add_delta<double>(const double*, const float*, const float*, std::int64_t);
template void State::add_delta<float>(const float*, const float*, const float*, std::int64_t);

std::int64_t state_value_count(const Config& c, std::int64_t tokens) {
  std::int64_t count = 0;
  for (const int ratio : c.compress_ratios) {
    count += static_cast<std::int64_t>(c.sliding_window) * c.head_dim;
    if (ratio == 0) continue;
    const std::int64_t half = overlap(ratio), rows = tokens / ratio;
    count += rows * c.head_dim + 2 * (half * ratio) * (half * c.head_dim);
    if (ratio == 4) count += rows * c.index_head_dim + 2 * (half * ratio) * (half * c.index_head_dim);
  }
  return count;
}

}  // namespace kernels
