// A small model with every family of tensors, as texts and bytes to be changed by a test.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "check.h"
#include "checkpoint/layout.h"
#include "checkpoint/text.h"

namespace tiny {

// config.json as key -> JSON text, so that a test replaces or erases one value.
using Fields = std::map<std::string, std::string>;

inline Fields config() {
  return {
      {"model_type", "\"deepseek_v4\""},
      {"vocab_size", "10"},
      {"hidden_size", "160"},
      {"num_hidden_layers", "4"},
      {"num_attention_heads", "4"},
      {"num_key_value_heads", "1"},
      {"head_dim", "48"},
      {"qk_rope_head_dim", "16"},
      {"q_lora_rank", "48"},
      {"o_lora_rank", "16"},
      {"o_groups", "2"},
      {"n_routed_experts", "4"},
      {"n_shared_experts", "1"},
      {"num_experts_per_tok", "2"},
      {"moe_intermediate_size", "32"},
      {"scoring_func", "\"sqrtsoftplus\""},
      {"routed_scaling_factor", "1.5"},
      {"swiglu_limit", "10.0"},
      {"num_hash_layers", "1"},
      {"sliding_window", "8"},
      {"compress_ratios", "[0, 4, 16, 4, 0]"},
      {"compress_rope_theta", "160000"},
      {"rope_theta", "10000.0"},
      {"rope_scaling",
       R"({"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 64})"},
      {"max_position_embeddings", "1024"},
      {"index_n_heads", "2"},
      {"index_head_dim", "32"},
      {"index_topk", "4"},
      {"hc_mult", "4"},
      {"hc_sinkhorn_iters", "20"},
      {"hc_eps", "1e-06"},
      {"rms_norm_eps", "1e-06"},
      {"bos_token_id", "0"},
      {"eos_token_id", "1"},
      {"num_nextn_predict_layers", "1"},
      {"tie_word_embeddings", "false"},
      {"attention_bias", "false"},
      {"quantization_config", R"({"quant_method": "fp8", "fmt": "e4m3", "scale_fmt": "ue8m0", "weight_block_size": [128, 128]})"},
  };
}

inline std::string text(const Fields& fields) {
  std::string out = "{";
  for (const auto& [key, value] : fields) out += (out.size() > 1 ? ", \"" : "\"") + key + "\": " + value;
  return out + "}";
}

inline kernels::Config parsed(const Fields& fields = config()) { return kernels::Config::parse(text(fields), "config.json"); }

struct Stored {
  std::string name, tag;
  std::vector<std::int64_t> shape;

  std::uint64_t bytes() const {
    std::uint64_t bits = static_cast<std::uint64_t>(kernels::find_storage_type(tag)->bits);
    for (const std::int64_t extent : shape) bits *= static_cast<std::uint64_t>(extent);
    return bits / 8;
  }
};

// The layout with linears in `linear` ("F32", "BF16", "F8_E4M3" or "I8" for FP4), other tensors F32 and I64, and one mtp tensor.
inline std::vector<Stored> tensors(const kernels::Config& config, const std::string& linear) {
  std::vector<Stored> all;
  const auto add = [&](const std::vector<kernels::ExpectedTensor>& expected) {
    for (const kernels::ExpectedTensor& tensor : expected) {
      if (tensor.storage != kernels::Storage::Linear) {
        all.push_back({tensor.name, tensor.storage == kernels::Storage::Table ? "I64" : "F32", tensor.shape});
        continue;
      }
      // FP4 needs whole blocks of 32 columns, so the rest of such a model is BF16.
      const std::int64_t out = tensor.shape[0], in = tensor.shape[1];
      const std::string tag = linear == "I8" && in % 32 != 0 ? "BF16" : linear;
      const std::string scale = tensor.name.substr(0, tensor.name.size() - 6) + "scale";
      all.push_back({tensor.name, tag, {out, tag == "I8" ? in / 2 : in}});
      if (tag == "F8_E4M3") all.push_back({scale, "F8_E8M0", {(out + 127) / 128, (in + 127) / 128}});
      if (tag == "I8") all.push_back({scale, "F8_E8M0", {out, in / 32}});
    }
  };
  add(kernels::model_tensors(config));
  for (int layer = 0; layer < config.num_hidden_layers; ++layer) add(kernels::layer_tensors(config, layer));
  all.push_back({"mtp.0.anything", "F16", {3, 2, 1}});
  return all;
}

inline std::string entry(const Stored& tensor, std::uint64_t begin) {
  return '"' + tensor.name + R"(":{"dtype":")" + tensor.tag + R"(","shape":)" + kernels::shape_text(tensor.shape) +
         R"(,"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(begin + tensor.bytes()) + "]}";
}

// Length field, JSON and payload of zeros.
inline std::string shard(const std::string& json, std::uint64_t payload) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(json.size() >> (8 * i));
  return out + json + std::string(payload, '\0');
}

inline std::string shard(const std::vector<Stored>& tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t end = 0;
  for (const Stored& tensor : tensors) {
    json += "," + entry(tensor, end);
    end += tensor.bytes();
  }
  return shard(json + "}", end);
}

// A directory that goes when the test ends.
class Directory {
 public:
  Directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "checkpoint-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp " + pattern);
    path_ = pattern;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::string path(const std::string& name = "") const { return name.empty() ? path_ : path_ + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const { std::ofstream(path(name), std::ios::binary) << bytes; }

 private:
  std::string path_;
};

}  // namespace tiny
