#include "checkpoint/config.h"

#include <string>

#include "tiny.h"

namespace {

// "key|found|allowed" of the refusal of the tiny config.json with one key replaced, or erased where `value` is empty.
std::string refusal(const std::string& key, const std::string& value) {
  tiny::Fields fields = tiny::config();
  if (value.empty()) fields.erase(key);
  else fields[key] = value;
  const auto error = ERROR_OF(tiny::parsed(fields));
  CHECK_EQ(error.file, "config.json");
  return error.key + "|" + error.found + "|" + error.allowed;
}

kernels::Config with(const std::string& key, const std::string& value) {
  tiny::Fields fields = tiny::config();
  fields[key] = value;
  return tiny::parsed(fields);
}

std::string rope(const std::string& fields) {
  return R"({"type": "yarn", "factor": 16, "original_max_position_embeddings": 64)" + fields + "}";
}

}  // namespace

TEST(values_are_read) {
  const kernels::Config c = tiny::parsed();
  CHECK_EQ(c.vocab_size, 10);
  CHECK_EQ(c.hidden_size, 160);
  CHECK_EQ(c.num_hidden_layers, 4);
  CHECK_EQ(c.num_attention_heads, 4);
  CHECK_EQ(c.head_dim, 48);
  CHECK_EQ(c.qk_rope_head_dim, 16);
  CHECK_EQ(c.q_lora_rank, 48);
  CHECK_EQ(c.o_lora_rank, 16);
  CHECK_EQ(c.o_groups, 2);
  CHECK_EQ(c.n_routed_experts, 4);
  CHECK_EQ(c.num_experts_per_tok, 2);
  CHECK_EQ(c.moe_intermediate_size, 32);
  CHECK_EQ(c.routed_scaling_factor, 1.5f);
  CHECK_EQ(c.swiglu_limit, 10.0f);
  CHECK_EQ(c.num_hash_layers, 1);
  CHECK_EQ(c.sliding_window, 8);
  CHECK_EQ(c.compress_rope_theta, 160000.0);
  CHECK_EQ(c.rope_theta, 10000.0);
  CHECK_EQ(c.yarn_factor, 16.0);
  CHECK_EQ(c.yarn_original_max_position_embeddings, 64);
  CHECK_EQ(c.yarn_beta_fast, 32.0);
  CHECK_EQ(c.yarn_beta_slow, 1.0);
  CHECK_EQ(c.max_position_embeddings, 1024);
  CHECK_EQ(c.index_n_heads, 2);
  CHECK_EQ(c.index_head_dim, 32);
  CHECK_EQ(c.index_topk, 4);
  CHECK_EQ(c.hc_mult, 4);
  CHECK_EQ(c.hc_sinkhorn_iters, 20);
  CHECK_EQ(c.hc_eps, 1e-6f);
  CHECK_EQ(c.rms_norm_eps, 1e-6f);
  CHECK_EQ(c.bos_token_id, 0);
  CHECK_EQ(c.eos_token_id, 1);
  CHECK_EQ(c.num_nextn_predict_layers, 1);
}

TEST(mtp_entry_of_compress_ratios_is_dropped) {
  const std::vector<int> expected = {0, 4, 16, 4};
  CHECK(tiny::parsed().compress_ratios == expected);
  CHECK(with("compress_ratios", "[0, 4, 16, 4]").compress_ratios == expected);
}

TEST(compress_ratios_are_required_and_fit_the_layers) {
  const std::string allowed = "|an array with one ratio a layer, 4 or, with MTP, 5";
  CHECK_EQ(refusal("compress_ratios", ""), "compress_ratios|nothing" + allowed);
  CHECK_EQ(refusal("compress_ratios", "null"), "compress_ratios|nothing" + allowed);
  CHECK_EQ(refusal("compress_ratios", "4"), "compress_ratios|integer 4" + allowed);
  CHECK_EQ(refusal("compress_ratios", "[0, 4, 16]"), "compress_ratios|array of 3" + allowed);
  CHECK_EQ(refusal("compress_ratios", "[0, 4, 16, 4, 0, 0]"), "compress_ratios|array of 6" + allowed);
  CHECK_EQ(refusal("compress_ratios", "[0, -4, 16, 4]"), "compress_ratios[1]|integer -4|an integer in 0..65536");
  CHECK_EQ(refusal("compress_ratios", "[0, 4, 16, 4, true]"), "compress_ratios[4]|true|an integer in 0..65536");
}

TEST(unknown_keys_are_tolerated) { CHECK_EQ(with("topk_method", "\"noaux_tc\"").vocab_size, 10); }

TEST(dimensions_are_integers_in_range) {
  CHECK_EQ(refusal("vocab_size", ""), "vocab_size|nothing|an integer in 1..16777216");
  CHECK_EQ(refusal("vocab_size", "0"), "vocab_size|integer 0|an integer in 1..16777216");
  CHECK_EQ(refusal("vocab_size", "10.0"), "vocab_size|number 10|an integer in 1..16777216");
  CHECK_EQ(refusal("vocab_size", "\"10\""), "vocab_size|string \"10\"|an integer in 1..16777216");
  CHECK_EQ(refusal("vocab_size", "true"), "vocab_size|true|an integer in 1..16777216");
  CHECK_EQ(refusal("hidden_size", "9223372036854775807"), "hidden_size|integer 9223372036854775807|an integer in 1..131072");
  CHECK_EQ(refusal("num_hidden_layers", "1000000"), "num_hidden_layers|integer 1000000|an integer in 1..1024");
  CHECK_EQ(refusal("hc_mult", "9"), "hc_mult|integer 9|an integer in 1..8");
  CHECK_EQ(refusal("num_experts_per_tok", "9"), "num_experts_per_tok|integer 9|an integer in 1..8");
  CHECK_EQ(refusal("num_hash_layers", "-1"), "num_hash_layers|integer -1|an integer in 0..1024");
}

TEST(every_required_key_is_missed) {
  for (const char* key : {"model_type",
                          "vocab_size",
                          "hidden_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "head_dim",
                          "qk_rope_head_dim",
                          "q_lora_rank",
                          "o_lora_rank",
                          "o_groups",
                          "n_routed_experts",
                          "num_experts_per_tok",
                          "moe_intermediate_size",
                          "scoring_func",
                          "routed_scaling_factor",
                          "swiglu_limit",
                          "num_hash_layers",
                          "sliding_window",
                          "compress_ratios",
                          "compress_rope_theta",
                          "rope_theta",
                          "max_position_embeddings",
                          "index_n_heads",
                          "index_head_dim",
                          "index_topk",
                          "hc_mult",
                          "hc_sinkhorn_iters",
                          "hc_eps",
                          "rms_norm_eps",
                          "bos_token_id",
                          "eos_token_id"})
    CHECK_EQ(refusal(key, "").substr(0, std::string(key).size() + 8), std::string(key) + "|nothing");
}

TEST(relations_between_dimensions_hold) {
  for (const char* key : {"hidden_size", "head_dim", "qk_rope_head_dim", "q_lora_rank", "o_lora_rank", "moe_intermediate_size"})
    CHECK_EQ(refusal(key, "40"), std::string(key) + "|integer 40|a multiple of 16");
  CHECK_EQ(refusal("qk_rope_head_dim", "64"), "qk_rope_head_dim|integer 64|at most head_dim = 48");
  CHECK_EQ(refusal("o_groups", "3"), "o_groups|integer 3|a divisor of num_attention_heads = 4");
  CHECK_EQ(refusal("num_experts_per_tok", "5"), "num_experts_per_tok|integer 5|at most n_routed_experts = 4");
  CHECK_EQ(refusal("num_hash_layers", "5"), "num_hash_layers|integer 5|at most num_hidden_layers = 4");
  CHECK_EQ(refusal("eos_token_id", "10"), "eos_token_id|integer 10|an integer in 0..9");
  CHECK_EQ(refusal("eos_token_id", "[1, 2]"), "eos_token_id|array of 2|an integer in 0..9");
}

TEST(other_models_are_refused) {
  CHECK_EQ(refusal("model_type", "\"deepseek_v3\""), "model_type|string \"deepseek_v3\"|\"deepseek_v4\"");
  CHECK_EQ(refusal("scoring_func", "\"sigmoid\""), "scoring_func|string \"sigmoid\"|\"sqrtsoftplus\"");
  CHECK_EQ(refusal("hidden_act", "\"gelu\""), "hidden_act|string \"gelu\"|\"silu\"");
  CHECK_EQ(refusal("tie_word_embeddings", "true"), "tie_word_embeddings|true|false");
  CHECK_EQ(refusal("attention_bias", "true"), "attention_bias|true|false");
  CHECK_EQ(refusal("attention_bias", "0"), "attention_bias|integer 0|false");
  CHECK_EQ(refusal("norm_topk_prob", "false"), "norm_topk_prob|false|true");
  CHECK_EQ(refusal("num_key_value_heads", "4"), "num_key_value_heads|integer 4|1");
  CHECK_EQ(refusal("n_shared_experts", "2"), "n_shared_experts|integer 2|1");
}

TEST(numbers_are_in_range) {
  CHECK_EQ(refusal("rms_norm_eps", "0"), "rms_norm_eps|integer 0|a number in 1e-30..1");
  CHECK_EQ(refusal("hc_eps", "-1e-6"), "hc_eps|number -1e-06|a number in 1e-30..1");
  CHECK_EQ(refusal("rope_theta", "1"), "rope_theta|integer 1|a number in 2..1e+12");
  CHECK_EQ(refusal("rope_theta", "\"1e4\""), "rope_theta|string \"1e4\"|a number in 2..1e+12");
  CHECK_EQ(refusal("swiglu_limit", "1e40"), "swiglu_limit|number 1e+40|a number in -1e+30..1e+30");
  CHECK_EQ(with("swiglu_limit", "0").swiglu_limit, 0.0f);
  CHECK_EQ(with("rope_theta", "10000").rope_theta, 10000.0);
}

TEST(without_rope_scaling_nothing_is_scaled) {
  const kernels::Config c = with("rope_scaling", "null");
  CHECK_EQ(c.yarn_factor, 1.0);
  CHECK_EQ(c.yarn_original_max_position_embeddings, 0);
}

TEST(rope_scaling_is_yarn) {
  CHECK_EQ(with("rope_scaling", rope("")).yarn_beta_fast, 32.0);
  CHECK_EQ(with("rope_scaling", rope(R"(, "beta_slow": 2.5)")).yarn_beta_slow, 2.5);
  CHECK_EQ(with("rope_scaling", R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 8})").yarn_factor, 4.0);
  CHECK_EQ(refusal("rope_scaling", R"({"type": "linear", "factor": 2})"), "rope_scaling.type|string \"linear\"|\"yarn\"");
  CHECK_EQ(refusal("rope_scaling", R"({"factor": 2})"), "rope_scaling.rope_type|nothing|\"yarn\"");
  CHECK_EQ(refusal("rope_scaling", R"({"type": "yarn", "factor": 0.5})"), "rope_scaling.factor|number 0.5|a number in 1..1e+06");
  CHECK_EQ(refusal("rope_scaling", R"({"type": "yarn", "factor": 2})"),
           "rope_scaling.original_max_position_embeddings|nothing|an integer in 1..4194304");
  CHECK_EQ(refusal("rope_scaling", "16"), "rope_scaling|integer 16|an object or null");
}

TEST(renamed_rope_keys_are_refused) {
  tiny::Fields fields = tiny::config();
  fields["rope_parameters"] = fields["rope_scaling"];
  fields.erase("rope_scaling");
  const auto error = ERROR_OF(tiny::parsed(fields));
  CHECK_EQ(error.key, "rope_parameters");
}

TEST(compressed_layers_need_their_rope_base) {
  CHECK_EQ(refusal("compress_rope_theta", ""), "compress_rope_theta|nothing|a number in 2..1e+12");
  tiny::Fields fields = tiny::config();
  fields["compress_ratios"] = "[0, 0, 0, 0]";
  fields.erase("compress_rope_theta");
  CHECK_EQ(tiny::parsed(fields).compress_rope_theta, 10000.0);
}

TEST(ratio_4_needs_the_indexer) {
  CHECK_EQ(refusal("index_topk", ""), "index_topk|nothing|an integer in 1..1048576");
  CHECK_EQ(refusal("index_head_dim", "96"), "index_head_dim|integer 96|a power of two of at least 32");
  CHECK_EQ(refusal("index_head_dim", "16"), "index_head_dim|integer 16|an integer in 32..4096");
  tiny::Fields wide = tiny::config();
  wide["qk_rope_head_dim"] = "48";
  CHECK_EQ(ERROR_OF(tiny::parsed(wide)).allowed, "at least qk_rope_head_dim = 48");
}

TEST(without_ratio_4_there_is_no_indexer) {
  tiny::Fields fields = tiny::config();
  fields["compress_ratios"] = "[0, 16, 16, 8]";
  for (const char* key : {"index_n_heads", "index_head_dim", "index_topk"}) fields.erase(key);
  const kernels::Config c = tiny::parsed(fields);
  CHECK_EQ(c.index_n_heads, 0);
  CHECK_EQ(c.index_head_dim, 0);
  CHECK_EQ(c.index_topk, 0);
}

TEST(quantization_config_is_the_official_one_or_none) {
  const auto config = [](const std::string& method, const std::string& format, const std::string& scale,
                         const std::string& block) {
    return R"({"quant_method": ")" + method + R"(", "fmt": ")" + format + R"(", "scale_fmt": ")" + scale +
           R"(", "weight_block_size": )" + block + "}";
  };
  CHECK_EQ(with("quantization_config", "null").vocab_size, 10);
  CHECK_EQ(with("quantization_config", config("fp8", "e4m3", "ue8m0", "[128, 128]")).vocab_size, 10);
  CHECK_EQ(refusal("quantization_config", config("awq", "e4m3", "ue8m0", "[128, 128]")),
           "quantization_config.quant_method|string \"awq\"|\"fp8\"");
  CHECK_EQ(refusal("quantization_config", config("fp8", "e5m2", "ue8m0", "[128, 128]")),
           "quantization_config.fmt|string \"e5m2\"|\"e4m3\"");
  CHECK_EQ(refusal("quantization_config", config("fp8", "e4m3", "float32", "[128, 128]")),
           "quantization_config.scale_fmt|string \"float32\"|\"ue8m0\"");
  CHECK_EQ(refusal("quantization_config", config("fp8", "e4m3", "ue8m0", "[64, 128]")),
           "quantization_config.weight_block_size|[integer 64, integer 128]|[128, 128]");
  CHECK_EQ(refusal("quantization_config", config("fp8", "e4m3", "ue8m0", "[128]")),
           "quantization_config.weight_block_size|array of 1|[128, 128]");
  CHECK_EQ(refusal("quantization_config", R"({"quant_method": "fp8", "fmt": "e4m3"})"),
           "quantization_config.scale_fmt|nothing|\"ue8m0\"");
}

TEST(json_faults_are_passed_on) {
  CHECK_EQ(ERROR_OF(kernels::Config::parse("", "c")).key, "byte 0");
  CHECK_EQ(ERROR_OF(kernels::Config::parse("[]", "c")).allowed, "an object");
  CHECK_EQ(ERROR_OF(kernels::Config::parse(R"({"vocab_size": 1, "vocab_size": 2})", "c")).found, "key \"vocab_size\" again");
}
