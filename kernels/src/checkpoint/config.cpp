#include "checkpoint/config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "checkpoint/errors.h"
#include "checkpoint/json.h"
#include "checkpoint/text.h"

namespace kernels {
namespace {

// One object of config.json: typed access to its keys, errors with their key path. Unknown keys are left alone: real files carry
// many.
class Section {
 public:
  Section(const json::Object& object, std::string path, const std::string& file)
      : object_(object), path_(std::move(path)), file_(file) {}

  [[noreturn]] void fail(const std::string& key, const std::string& found, const std::string& allowed) const {
    throw CheckpointError(file_, path_ + key, found, allowed);
  }

  // null counts as absent: writers of config.json put it where a feature is off.
  const json::Value* find(const std::string& key) const {
    const json::Value* value = json::find(object_, key);
    return value != nullptr && value->is_null() ? nullptr : value;
  }

  int integer(const std::string& key, std::int64_t low, std::int64_t high) const {
    const json::Value* value = find(key);
    const std::int64_t* number = value != nullptr ? value->integer() : nullptr;
    if (number == nullptr || *number < low || *number > high)
      fail(key, json::describe(value), "an integer in " + std::to_string(low) + ".." + std::to_string(high));
    return static_cast<int>(*number);
  }

  int integer_or(const std::string& key, std::int64_t low, std::int64_t high, int fallback) const {
    return find(key) != nullptr ? integer(key, low, high) : fallback;
  }

  double number(const std::string& key, double low, double high) const {
    const json::Value* value = find(key);
    double result = std::nan("");
    if (value != nullptr) {
      if (const auto* i = value->integer()) result = static_cast<double>(*i);
      if (const auto* d = std::get_if<double>(&value->data)) result = *d;
    }
    if (!(result >= low && result <= high))
      fail(key, json::describe(value), "a number in " + number_text(low) + ".." + number_text(high));
    return result;
  }

  double number_or(const std::string& key, double low, double high, double fallback) const {
    return find(key) != nullptr ? number(key, low, high) : fallback;
  }

  enum class Presence { Required, Optional };

  void string(const std::string& key, const std::string& only, Presence presence) const {
    const json::Value* value = find(key);
    if (value == nullptr && presence == Presence::Optional) return;
    const std::string* text = value != nullptr ? value->string() : nullptr;
    if (text == nullptr || *text != only) fail(key, json::describe(value), "\"" + only + "\"");
  }

  // Keys that may be absent but must not say otherwise: the decoder has no other way.
  void only_integer(const std::string& key, std::int64_t only) const {
    const json::Value* value = find(key);
    if (value != nullptr && (value->integer() == nullptr || *value->integer() != only))
      fail(key, json::describe(value), std::to_string(only));
  }

  void only_boolean(const std::string& key, bool only) const {
    const json::Value* value = find(key);
    if (value != nullptr && (value->boolean() == nullptr || *value->boolean() != only))
      fail(key, json::describe(value), only ? "true" : "false");
  }

  // nullptr when absent or null.
  const json::Object* object(const std::string& key) const {
    const json::Value* value = find(key);
    if (value == nullptr) return nullptr;
    if (value->object() == nullptr) fail(key, json::describe(value), "an object or null");
    return value->object();
  }

 private:
  const json::Object& object_;
  std::string path_;
  const std::string& file_;
};

struct Dimension {
  const char* key;
  int Config::* member;
  int low, high;
};

// Upper bounds are far above any released model and keep every product of two of them within int64, heads * head_dim within int.
constexpr Dimension kDimensions[] = {
    {"vocab_size", &Config::vocab_size, 1, 1 << 24},
    {"hidden_size", &Config::hidden_size, 1, 1 << 17},
    {"num_hidden_layers", &Config::num_hidden_layers, 1, 1024},
    {"num_attention_heads", &Config::num_attention_heads, 1, 4096},
    {"head_dim", &Config::head_dim, 2, 1 << 14},
    {"qk_rope_head_dim", &Config::qk_rope_head_dim, 2, 1 << 14},
    {"q_lora_rank", &Config::q_lora_rank, 1, 1 << 17},
    {"o_lora_rank", &Config::o_lora_rank, 1, 1 << 14},
    {"o_groups", &Config::o_groups, 1, 4096},
    {"n_routed_experts", &Config::n_routed_experts, 1, 4096},
    {"num_experts_per_tok", &Config::num_experts_per_tok, 1, kMaxExpertsPerTok},
    {"moe_intermediate_size", &Config::moe_intermediate_size, 1, 1 << 17},
    {"num_hash_layers", &Config::num_hash_layers, 0, 1024},
    {"sliding_window", &Config::sliding_window, 1, 1 << 20},
    {"max_position_embeddings", &Config::max_position_embeddings, 1, kMaxPositions},
    {"hc_mult", &Config::hc_mult, 1, kMaxHcMult},
    {"hc_sinkhorn_iters", &Config::hc_sinkhorn_iters, 1, 1000},
};

void parse_refusals(const Section& root) {
  using Presence = Section::Presence;
  root.string("model_type", "deepseek_v4", Presence::Required);
  root.string("scoring_func", "sqrtsoftplus", Presence::Required);
  root.string("hidden_act", "silu", Presence::Optional);
  root.only_boolean("tie_word_embeddings", false);
  root.only_boolean("attention_bias", false);
  root.only_boolean("norm_topk_prob", true);
  root.only_integer("num_key_value_heads", 1);
  root.only_integer("n_shared_experts", 1);
}

void parse_ratios(const Section& root, const std::string& file, Config& config) {
  const json::Value* value = root.find("compress_ratios");
  const json::Array* items = value != nullptr ? value->array() : nullptr;
  const auto layers = static_cast<std::size_t>(config.num_hidden_layers);
  const auto all = layers + static_cast<std::size_t>(config.num_nextn_predict_layers);
  // Absent, transformers would invent a pattern that is not the model's, so nothing stands in for it here.
  if (items == nullptr || (items->size() != layers && items->size() != all))
    root.fail("compress_ratios", json::describe(value),
              "an array with one ratio a layer, " + std::to_string(layers) +
                  (all != layers ? " or, with MTP, " + std::to_string(all) : ""));
  for (std::size_t layer = 0; layer < items->size(); ++layer) {
    const std::int64_t* ratio = (*items)[layer].integer();
    if (ratio == nullptr || *ratio < 0 || *ratio > 65536)
      throw CheckpointError(file, "compress_ratios[" + std::to_string(layer) + "]", json::describe(&(*items)[layer]),
                            "an integer in 0..65536");
    if (layer < layers) config.compress_ratios.push_back(static_cast<int>(*ratio));
  }
}

void parse_rope(const Section& root, const std::string& file, Config& config) {
  // YaRN divides by the logarithm of the base.
  constexpr double kLowest = 2, kHighest = 1e12;
  config.rope_theta = root.number("rope_theta", kLowest, kHighest);
  const bool compressed =
      std::any_of(config.compress_ratios.begin(), config.compress_ratios.end(), [](int ratio) { return ratio != 0; });
  config.compress_rope_theta = compressed ? root.number("compress_rope_theta", kLowest, kHighest)
                                          : root.number_or("compress_rope_theta", kLowest, kHighest, config.rope_theta);
  const json::Object* object = root.object("rope_scaling");
  if (object == nullptr) {
    // A converter that renamed the keys would otherwise lose the scaling without a word.
    if (root.find("rope_parameters") != nullptr)
      root.fail("rope_parameters", "rope_parameters without rope_scaling", "the official keys rope_theta and rope_scaling");
    return;
  }
  const Section scaling(*object, "rope_scaling.", file);
  scaling.string(scaling.find("type") != nullptr ? "type" : "rope_type", "yarn", Section::Presence::Required);
  config.yarn_factor = scaling.number("factor", 1, 1e6);
  config.yarn_original_max_position_embeddings = scaling.integer("original_max_position_embeddings", 1, kMaxPositions);
  config.yarn_beta_fast = scaling.number_or("beta_fast", 1e-3, 1e6, config.yarn_beta_fast);
  config.yarn_beta_slow = scaling.number_or("beta_slow", 1e-3, 1e6, config.yarn_beta_slow);
}

void parse_indexer(const Section& root, Config& config) {
  if (std::find(config.compress_ratios.begin(), config.compress_ratios.end(), 4) == config.compress_ratios.end()) return;
  config.index_n_heads = root.integer("index_n_heads", 1, 4096);
  config.index_head_dim = root.integer("index_head_dim", 32, 4096);
  config.index_topk = root.integer("index_topk", 1, 1 << 20);
  // Its vectors pass a Sylvester Hadamard matrix and blocks of 32 FP4 values (reference sections 8 and 9).
  if ((config.index_head_dim & (config.index_head_dim - 1)) != 0)
    root.fail("index_head_dim", json::describe(root.find("index_head_dim")), "a power of two of at least 32");
  if (config.index_head_dim < config.qk_rope_head_dim)
    root.fail("index_head_dim", json::describe(root.find("index_head_dim")),
              "at least qk_rope_head_dim = " + std::to_string(config.qk_rope_head_dim));
}

// The formats of the weights are chosen by dtype tag; this only refuses a file that declares scales of another kind.
void parse_quantization(const Section& root, const std::string& file) {
  const json::Object* object = root.object("quantization_config");
  if (object == nullptr) return;
  const Section section(*object, "quantization_config.", file);
  section.string("quant_method", "fp8", Section::Presence::Required);
  section.string("fmt", "e4m3", Section::Presence::Required);
  section.string("scale_fmt", "ue8m0", Section::Presence::Required);
  section.string("activation_scheme", "dynamic", Section::Presence::Optional);
  const json::Value* block = section.find("weight_block_size");
  const json::Array* extents = block != nullptr ? block->array() : nullptr;
  const auto is_128 = [](const json::Value& value) { return value.integer() != nullptr && *value.integer() == 128; };
  if (extents == nullptr || extents->size() != 2 || !std::all_of(extents->begin(), extents->end(), is_128)) {
    std::string found = json::describe(block);
    if (extents != nullptr && extents->size() == 2)
      found = "[" + json::describe(&(*extents)[0]) + ", " + json::describe(&(*extents)[1]) + "]";
    section.fail("weight_block_size", found, "[128, 128]");
  }
}

void check_relations(const Section& root, const Config& config) {
  const auto fail = [&](const char* key, int found, const std::string& allowed) {
    root.fail(key, "integer " + std::to_string(found), allowed);
  };
  if (config.qk_rope_head_dim > config.head_dim)
    fail("qk_rope_head_dim", config.qk_rope_head_dim, "at most head_dim = " + std::to_string(config.head_dim));
  if (config.num_attention_heads % config.o_groups != 0)
    fail("o_groups", config.o_groups, "a divisor of num_attention_heads = " + std::to_string(config.num_attention_heads));
  // Every vector is worked on sixteen lanes at a time, without a tail.
  const auto lanes = [&](const char* key, int width) {
    if (width % 16 != 0) fail(key, width, "a multiple of 16");
  };
  lanes("hidden_size", config.hidden_size);
  lanes("head_dim", config.head_dim);
  lanes("qk_rope_head_dim", config.qk_rope_head_dim);  // and so the head's other dims
  lanes("q_lora_rank", config.q_lora_rank);
  lanes("o_lora_rank", config.o_lora_rank);
  lanes("moe_intermediate_size", config.moe_intermediate_size);
  if (config.num_experts_per_tok > config.n_routed_experts)
    fail("num_experts_per_tok", config.num_experts_per_tok,
         "at most n_routed_experts = " + std::to_string(config.n_routed_experts));
  if (config.num_hash_layers > config.num_hidden_layers)
    fail("num_hash_layers", config.num_hash_layers, "at most num_hidden_layers = " + std::to_string(config.num_hidden_layers));
}

}  // namespace

Config Config::parse(const std::string& text, const std::string& file) {
  const json::Value document = json::parse(text, file, 0, {std::size_t{1} << 20, 100'000, 32});
  const json::Object* object = document.object();
  if (object == nullptr) throw CheckpointError(file, "", json::describe(&document), "an object");
  const Section root(*object, "", file);

  Config config;
  parse_refusals(root);
  for (const Dimension& dimension : kDimensions)
    config.*dimension.member = root.integer(dimension.key, dimension.low, dimension.high);
  check_relations(root, config);
  config.num_nextn_predict_layers = root.integer_or("num_nextn_predict_layers", 0, 64, 0);
  config.routed_scaling_factor = static_cast<float>(root.number("routed_scaling_factor", 1e-6, 1e6));
  config.swiglu_limit = static_cast<float>(root.number("swiglu_limit", -1e30, 1e30));
  config.hc_eps = static_cast<float>(root.number("hc_eps", 1e-30, 1));
  config.rms_norm_eps = static_cast<float>(root.number("rms_norm_eps", 1e-30, 1));
  config.bos_token_id = root.integer("bos_token_id", 0, config.vocab_size - 1);
  config.eos_token_id = root.integer("eos_token_id", 0, config.vocab_size - 1);
  parse_ratios(root, file, config);
  parse_rope(root, file, config);
  parse_indexer(root, config);
  parse_quantization(root, file);
  return config;
}

}  // namespace kernels
