#include "checkpoint/layout.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "checkpoint/errors.h"
#include "checkpoint/text.h"

namespace kernels {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool has_tag(const HeaderEntry& entry, std::string_view tag) { return tag == entry.type->tag; }

std::string stored_text(const HeaderEntry& entry) { return entry.type->tag + (" " + shape_text(entry.shape)); }

class Families {
 public:
  explicit Families(std::string prefix) : prefix_(std::move(prefix)) {}

  void plain(const std::string& name, std::vector<std::int64_t> shape) { add(name, Storage::Plain, std::move(shape)); }
  void norm(const std::string& name, std::int64_t width) { plain(name + ".weight", {width}); }
  void linear(const std::string& name, std::int64_t out, std::int64_t in) { add(name + ".weight", Storage::Linear, {out, in}); }
  void table(const std::string& name, std::int64_t rows, std::int64_t columns) { add(name, Storage::Table, {rows, columns}); }

  void expert(const std::string& name, std::int64_t hidden, std::int64_t inner) {
    linear(name + ".w1", inner, hidden);
    linear(name + ".w2", hidden, inner);
    linear(name + ".w3", inner, hidden);
  }

  // Overlapping windows (ratio 4) store two halves a row (reference section 8).
  void compressor(const std::string& name, std::int64_t dim, std::int64_t ratio, std::int64_t hidden) {
    const std::int64_t width = dim * (ratio == 4 ? 2 : 1);
    plain(name + ".ape", {ratio, width});
    plain(name + ".wkv.weight", {width, hidden});
    plain(name + ".wgate.weight", {width, hidden});
    norm(name + ".norm", dim);
  }

  void hyper_connection(const std::string& name, std::int64_t rows, std::int64_t scales, std::int64_t streams_width) {
    plain(name + "_fn", {rows, streams_width});
    plain(name + "_base", {rows});
    plain(name + "_scale", {scales});
  }

  std::vector<ExpectedTensor> take() { return std::move(tensors_); }

 private:
  void add(const std::string& name, Storage storage, std::vector<std::int64_t> shape) {
    tensors_.push_back({prefix_ + name, storage, std::move(shape)});
  }

  std::string prefix_;
  std::vector<ExpectedTensor> tensors_;
};

class LayoutCheck {
 public:
  LayoutCheck(const StoredTensors& stored, const std::string& file) : stored_(stored), file_(file) {
    known_.reserve(stored.size());
  }

  void check(const ExpectedTensor& expected) {
    switch (expected.storage) {
      case Storage::Plain: return check_one(expected.name, {"F32", "BF16"}, expected.shape);
      case Storage::Table: return check_one(expected.name, {"I64", "I32"}, expected.shape);
      case Storage::Linear: return check_linear(expected);
    }
  }

  void refuse_unknown() const {
    std::vector<std::string_view> unknown;
    for (const auto& [name, tensor] : stored_)
      if (!is_mtp(name) && known_.count(tensor.entry) == 0) unknown.push_back(name);
    if (unknown.empty()) return;
    const std::string_view first = *std::min_element(unknown.begin(), unknown.end());
    std::string found = "an unknown tensor";
    if (unknown.size() > 1) found += ", first of " + std::to_string(unknown.size());
    fail(stored_.at(first), first, found, "the tensors of the official layout for this config.json, and mtp.*");
  }

 private:
  using Tags = std::vector<const char*>;

  [[noreturn]] static void fail(const StoredTensor& tensor, std::string_view name, const std::string& found,
                                const std::string& allowed) {
    throw CheckpointError(*tensor.file, printable(name), found, allowed);
  }

  static std::string tags_text(const Tags& tags) {
    std::string text;
    for (std::size_t i = 0; i < tags.size(); ++i)
      text += (i == 0 ? "" : i + 1 < tags.size() ? ", " : " or ") + std::string(tags[i]);
    return text;
  }

  const StoredTensor& need(const std::string& name, const std::string& allowed) {
    const auto at = stored_.find(name);
    if (at == stored_.end()) throw CheckpointError(file_, name, "no such tensor", allowed);
    known_.insert(at->second.entry);
    return at->second;
  }

  void check_one(const std::string& name, const Tags& tags, const std::vector<std::int64_t>& shape) {
    const std::string allowed = tags_text(tags) + " " + shape_text(shape);
    const StoredTensor& tensor = need(name, allowed);
    const bool tagged = std::any_of(tags.begin(), tags.end(), [&](const char* tag) { return has_tag(*tensor.entry, tag); });
    if (!tagged || tensor.entry->shape != shape) fail(tensor, name, stored_text(*tensor.entry), allowed);
  }

  void check_linear(const ExpectedTensor& expected) {
    const std::string& name = expected.name;
    const std::string scale = name.substr(0, name.size() - std::strlen("weight")) + "scale";
    const std::int64_t out = expected.shape[0], in = expected.shape[1];
    const StoredTensor& weight = need(name, "F32, BF16, F8_E4M3 or I8 (FP4) for logical " + shape_text(expected.shape));
    if (has_tag(*weight.entry, "F8_E4M3")) {
      check_one(name, {"F8_E4M3"}, expected.shape);
      check_scale(scale, {ceil_div(out, 128), ceil_div(in, 128)}, "F8_E4M3");
    } else if (has_tag(*weight.entry, "I8")) {
      if (in % 32 != 0)
        fail(weight, name, "I8 (FP4) with " + std::to_string(in) + " columns", "FP4 with a multiple of 32 columns");
      check_one(name, {"I8"}, {out, in / 2});
      check_scale(scale, {out, in / 32}, "I8 (FP4)");
    } else {
      check_one(name, {"F32", "BF16", "F8_E4M3", "I8 (FP4, half the columns)"}, expected.shape);
      const auto at = stored_.find(scale);
      if (at != stored_.end())
        fail(at->second, scale, "a scale beside a " + std::string(weight.entry->type->tag) + " weight",
             "scales of F8_E4M3 and I8 (FP4) weights only");
    }
  }

  void check_scale(const std::string& name, const std::vector<std::int64_t>& shape, const std::string& weight) {
    const auto at = stored_.find(name);
    // Flash-Base stores them so; reading the four bytes as exponents would give a model that runs and is wrong.
    if (at != stored_.end() && has_tag(*at->second.entry, "F32"))
      fail(at->second, name, "an F32 scale, as Flash-Base stores them",
           "F8_E8M0 " + shape_text(shape) + ": F32 scales are not supported");
    if (at == stored_.end())
      throw CheckpointError(file_, name, "no such tensor", "F8_E8M0 " + shape_text(shape) + " beside the " + weight + " weight");
    check_one(name, {"F8_E8M0"}, shape);
  }

  const StoredTensors& stored_;
  const std::string& file_;
  std::unordered_set<const HeaderEntry*> known_;
};

}  // namespace

std::vector<ExpectedTensor> model_tensors(const Config& c) {
  Families f("");
  f.plain("embed.weight", {c.vocab_size, c.hidden_size});
  f.plain("head.weight", {c.vocab_size, c.hidden_size});
  f.norm("norm", c.hidden_size);
  f.hyper_connection("hc_head", c.hc_mult, 1, std::int64_t{c.hc_mult} * c.hidden_size);
  return f.take();
}

std::vector<ExpectedTensor> layer_tensors(const Config& c, int layer) {
  const std::int64_t hidden = c.hidden_size, query_width = std::int64_t{c.num_attention_heads} * c.head_dim;
  const std::int64_t output_rank = std::int64_t{c.o_groups} * c.o_lora_rank, streams_width = c.hc_mult * hidden;
  const int ratio = c.compress_ratios[static_cast<std::size_t>(layer)], mixes = (2 + c.hc_mult) * c.hc_mult;
  Families f("layers." + std::to_string(layer) + ".");

  f.hyper_connection("hc_attn", mixes, 3, streams_width);
  f.norm("attn_norm", hidden);
  f.plain("attn.attn_sink", {c.num_attention_heads});
  f.linear("attn.wq_a", c.q_lora_rank, hidden);
  f.norm("attn.q_norm", c.q_lora_rank);
  f.linear("attn.wq_b", query_width, c.q_lora_rank);
  f.linear("attn.wkv", c.head_dim, hidden);
  f.norm("attn.kv_norm", c.head_dim);
  f.linear("attn.wo_a", output_rank, query_width / c.o_groups);
  f.linear("attn.wo_b", hidden, output_rank);
  if (ratio != 0) f.compressor("attn.compressor", c.head_dim, ratio, hidden);
  if (ratio == 4) {
    f.linear("attn.indexer.wq_b", std::int64_t{c.index_n_heads} * c.index_head_dim, c.q_lora_rank);
    f.plain("attn.indexer.weights_proj.weight", {c.index_n_heads, hidden});
    f.compressor("attn.indexer.compressor", c.index_head_dim, ratio, hidden);
  }

  f.hyper_connection("hc_ffn", mixes, 3, streams_width);
  f.norm("ffn_norm", hidden);
  f.plain("ffn.gate.weight", {c.n_routed_experts, hidden});
  if (layer < c.num_hash_layers) f.table("ffn.gate.tid2eid", c.vocab_size, c.num_experts_per_tok);
  else f.plain("ffn.gate.bias", {c.n_routed_experts});
  for (int expert = 0; expert < c.n_routed_experts; ++expert)
    f.expert("ffn.experts." + std::to_string(expert), hidden, c.moe_intermediate_size);
  f.expert("ffn.shared_experts", hidden, c.moe_intermediate_size);
  return f.take();
}

bool is_mtp(std::string_view name) { return name.substr(0, 4) == "mtp."; }

void check_layout(const Config& config, const StoredTensors& stored, const std::string& file) {
  LayoutCheck check(stored, file);
  for (const ExpectedTensor& expected : model_tensors(config)) check.check(expected);
  for (int layer = 0; layer < config.num_hidden_layers; ++layer)
    for (const ExpectedTensor& expected : layer_tensors(config, layer)) check.check(expected);
  check.refuse_unknown();
}

}  // namespace kernels
