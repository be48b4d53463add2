#include "decoder/decoder.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "checkpoint/errors.h"

namespace kernels {
namespace {

constexpr std::size_t kArenaKept = std::size_t{64} << 20;  // from step to step

// Adds a delta to an item's streams and requires the bits before and after (study 2.4.2). It is not a copy of `after`.
void add_post_mhc_delta(const PostMhcDelta& d, float* streams, std::int64_t position) {
  const std::size_t size = d.delta.size();
  const auto require = [&](const std::vector<float>& wanted, const char* when) {
    std::size_t differing = 0;
    for (std::size_t i = 0; i < size; ++i) differing += std::memcmp(&wanted[i], &streams[i], 4) != 0;
    if (differing)
      throw StateMismatch("post_mhc_delta: layer " + std::to_string(d.layer) + ", position " + std::to_string(position) + ": " +
                          std::to_string(differing) + " of " + std::to_string(size) + " values differ " + when + " the addition");
  };
  require(d.before, "before");
  for (std::size_t i = 0; i < size; ++i) streams[i] += d.delta[i];
  require(d.after, "after");
}

}  // namespace

Decoder::Decoder(std::shared_ptr<const Checkpoint> checkpoint, std::string identity, int threads, Numerics numerics)
    : identity_(std::move(identity)),
      numerics_(numerics),
      config_(checkpoint, &checkpoint->config()),
      model_(checkpoint),
      rope_(*config_),
      pool_(threads),
      read_ahead_(checkpoint) {}

void Decoder::check(const std::vector<RowRequest>& rows) const {
  if (rows.empty()) throw KernelError("step: found no rows, allowed: 1 or more");
  std::vector<const State*> seen;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const RowRequest& row = rows[r];
    const std::string where = "row " + std::to_string(r) + ": ";
    if (row.tokens.empty()) throw KernelError(where + "found no tokens, allowed: 1 or more");
    for (const int token : row.tokens)
      if (token < 0 || token >= config_->vocab_size)
        throw KernelError(where + "found token " + std::to_string(token) + ", allowed: 0 to " + std::to_string(config_->vocab_size - 1));
    if (row.state->identity() != identity_ || row.state->numerics() != numerics_)
      throw KernelError(where + "the state belongs to another checkpoint or numerics mode");
    const std::int64_t end = row.state->position + static_cast<std::int64_t>(row.tokens.size());
    if (end > config_->max_position_embeddings)
      throw KernelError(where + "found " + std::to_string(end) + " positions, allowed: up to " + std::to_string(config_->max_position_embeddings));
    row.intervention->validate(*config_, static_cast<int>(row.tokens.size()));
    seen.push_back(row.state);
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) throw KernelError("step: the same state stands in two rows");
}

std::vector<RowResult> Decoder::step(const std::vector<RowRequest>& rows) {
  const std::lock_guard<std::mutex> turn(turn_);
  check(rows);
  const FloatEnvironment environment;
  const Config& c = *config_;
  const std::int64_t wide = static_cast<std::int64_t>(c.hc_mult) * c.hidden_size;

  arena_.trim(kArenaKept);
  Pass pass{model_, ops(), rope_, pool_, read_ahead_, numerics_ == Numerics::official, arena_};
  std::vector<RowResult> results(rows.size());
  std::map<std::int64_t, std::pair<Angles, Angles>> angles;  // of each position, plain and compressed
  std::map<std::pair<std::int64_t, std::vector<int>>, int> bundles;  // by position and tokens
  std::int64_t n = 0;                                                // items that every row on its own would have
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const RowRequest& row = rows[r];
    pass.rows.push_back({row.state, row.intervention, &results[r]});
    const Intervention& intervention = *row.intervention;
    const int tokens = static_cast<int>(row.tokens.size());
    n += tokens;
    const int layers = intervention.capture_layers ? static_cast<int>(intervention.capture_layers->size()) : c.num_hidden_layers;
    for (const Capture what : intervention.capture) results[r].captures.emplace_back(what, make_capture(what, c, tokens, layers));
    const auto [bundle, fresh] = bundles.try_emplace({row.state->position, row.tokens}, static_cast<int>(pass.bundles.size()));
    if (!fresh) {
      pass.bundles[bundle->second].rows.push_back(static_cast<int>(r));
      continue;
    }
    pass.bundles.push_back({{static_cast<int>(r)}, pass.count(), tokens});
    for (int t = 0; t < tokens; ++t) {
      const std::int64_t p = row.state->position + t;
      auto at = angles.find(p);
      if (at == angles.end()) at = angles.emplace(p, std::pair(rope_.angles(p, false), rope_.angles(p, true))).first;
      pass.items.push_back({bundle->second, t, t + 1 == tokens, p, row.tokens[t], &at->second.first, &at->second.second});
    }
  }

  pass.streams = Buffer(arena_, n, wide);
  pass.x = Buffer(arena_, n, c.hidden_size);
  pass.x8 = Buffer(arena_, n, c.hidden_size);
  pass.y = Buffer(arena_, n, c.hidden_size);
  pass.mix_post = Buffer(arena_, n, c.hc_mult);
  pass.mix_comb = Buffer(arena_, n, c.hc_mult * c.hc_mult);
  const std::int64_t widest = std::max<std::int64_t>({wide, static_cast<std::int64_t>(c.num_attention_heads) * c.head_dim,
                                                      static_cast<std::int64_t>(c.o_groups) * c.o_lora_rank, c.q_lora_rank,
                                                      c.moe_intermediate_size});
  for (int t = 0; t < pool_.threads(); ++t) pass.scratch.push_back(arena_.take<float>(linear_scratch(static_cast<int>(widest))));

  for (std::int64_t i = 0; i < pass.count(); ++i) {
    model_.embedding(pass.items[i].token, pass.streams[i]);
    for (int s = 1; s < c.hc_mult; ++s) std::copy_n(pass.streams[i], c.hidden_size, pass.streams[i] + static_cast<std::int64_t>(s) * c.hidden_size);
  }
  for (int l = 0; l < c.num_hidden_layers; ++l) {
    const Layer& layer = model_.layers[l];
    pass.part([&](int row) { return pass.rows[row].state->layers[l].get(); });
    hyper_connection_pre(pass, layer.hc_attn, layer.attn_norm);
    attention(pass, l);
    hyper_connection_post(pass);
    for (std::int64_t i = 0; i < pass.count(); ++i) pass.capture(i, Capture::post_attention, l, pass.streams[i], wide);
    hyper_connection_pre(pass, layer.hc_ffn, layer.ffn_norm);
    for (std::int64_t i = 0; i < pass.count(); ++i) {
      pass.capture(i, Capture::ffn_post, l, pass.mix_post[i], c.hc_mult);
      pass.capture(i, Capture::ffn_comb, l, pass.mix_comb[i], static_cast<std::int64_t>(c.hc_mult) * c.hc_mult);
    }
    feed_forward(pass, l);
    hyper_connection_post(pass);
    const auto delta_of = [&](int row) {
      const auto& delta = pass.rows[row].intervention->post_mhc_delta;
      return delta && delta->layer == l ? &*delta : nullptr;
    };
    pass.part(delta_of);
    for (std::int64_t i = 0; i < pass.count(); ++i) {
      const Item& item = pass.items[i];
      if (const PostMhcDelta* delta = delta_of(pass.bundles[item.bundle].lead())) add_post_mhc_delta(*delta, pass.streams[i], item.position);
      pass.capture(i, Capture::post_mhc, l, pass.streams[i], wide);
    }
  }
  head(pass);

  for (std::size_t r = 0; r < rows.size(); ++r) {
    rows[r].state->position += static_cast<std::int64_t>(rows[r].tokens.size());
    pass.rows[r].journal.keep();
  }
  return results;
}

}  // namespace kernels
