#include "checkpoint/layout.h"

#include <algorithm>
#include <deque>
#include <string>

#include "tiny.h"

namespace {

// A stored set as check_layout() sees it, with one file for all.
class Set {
 public:
  explicit Set(const std::vector<tiny::Stored>& tensors) {
    for (const tiny::Stored& tensor : tensors)
      entries_.push_back({tensor.name, kernels::find_storage_type(tensor.tag), tensor.shape, 0, tensor.bytes()});
    for (const kernels::HeaderEntry& entry : entries_) stored_[entry.name] = {&entry, &file_};
  }
  Set(const Set&) = delete;

  void check(const kernels::Config& config) const { kernels::check_layout(config, stored_, "index"); }

 private:
  std::string file_ = "shard";
  std::deque<kernels::HeaderEntry> entries_;
  kernels::StoredTensors stored_;
};

void check_all(const std::vector<tiny::Stored>& tensors, const kernels::Config& config = tiny::parsed()) {
  Set(tensors).check(config);
}

using Change = std::function<void(std::vector<tiny::Stored>&, std::size_t at)>;

// "file: key|found|allowed" of the refusal after `change` was made at the tensor `name`.
std::string refusal(const std::string& linear, const std::string& name, const Change& change) {
  std::vector<tiny::Stored> tensors = tiny::tensors(tiny::parsed(), linear);
  const auto at = std::find_if(tensors.begin(), tensors.end(), [&](const tiny::Stored& tensor) { return tensor.name == name; });
  CHECK(at != tensors.end());
  change(tensors, static_cast<std::size_t>(at - tensors.begin()));
  const auto error = ERROR_OF(check_all(tensors));
  return error.file + ": " + error.key + "|" + error.found + "|" + error.allowed;
}

Change erase() {
  return [](std::vector<tiny::Stored>& tensors, std::size_t at) {
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(at));
  };
}

Change store(const std::string& tag, const std::vector<std::int64_t>& shape) {
  return [=](std::vector<tiny::Stored>& tensors, std::size_t at) {
    tensors[at].tag = tag;
    tensors[at].shape = shape;
  };
}

Change add(const tiny::Stored& tensor) {
  return [=](std::vector<tiny::Stored>& tensors, std::size_t) { tensors.push_back(tensor); };
}

std::string listing(const std::vector<kernels::ExpectedTensor>& tensors) {
  std::string text;
  for (const kernels::ExpectedTensor& tensor : tensors)
    if (tensor.name.find(".experts.") == std::string::npos)
      text += tensor.name +
              (tensor.storage == kernels::Storage::Linear  ? " L "
               : tensor.storage == kernels::Storage::Table ? " T "
                                                           : " ") +
              kernels::shape_text(tensor.shape) + "\n";
  return text;
}

}  // namespace

// Shapes written down from reference section 2 with V 10, D 160, H 4, hd 48, q 48, o 2 x 16, E 4, k 2, I 32, hc 4.
TEST(families_outside_the_layers) {
  CHECK_EQ(listing(kernels::model_tensors(tiny::parsed())),
           "embed.weight [10, 160]\n"
           "head.weight [10, 160]\n"
           "norm.weight [160]\n"
           "hc_head_fn [4, 640]\n"
           "hc_head_base [4]\n"
           "hc_head_scale [1]\n");
}

TEST(families_of_a_sliding_hash_layer) {
  CHECK_EQ(listing(kernels::layer_tensors(tiny::parsed(), 0)),
           "layers.0.hc_attn_fn [24, 640]\n"
           "layers.0.hc_attn_base [24]\n"
           "layers.0.hc_attn_scale [3]\n"
           "layers.0.attn_norm.weight [160]\n"
           "layers.0.attn.attn_sink [4]\n"
           "layers.0.attn.wq_a.weight L [48, 160]\n"
           "layers.0.attn.q_norm.weight [48]\n"
           "layers.0.attn.wq_b.weight L [192, 48]\n"
           "layers.0.attn.wkv.weight L [48, 160]\n"
           "layers.0.attn.kv_norm.weight [48]\n"
           "layers.0.attn.wo_a.weight L [32, 96]\n"
           "layers.0.attn.wo_b.weight L [160, 32]\n"
           "layers.0.hc_ffn_fn [24, 640]\n"
           "layers.0.hc_ffn_base [24]\n"
           "layers.0.hc_ffn_scale [3]\n"
           "layers.0.ffn_norm.weight [160]\n"
           "layers.0.ffn.gate.weight [4, 160]\n"
           "layers.0.ffn.gate.tid2eid T [10, 2]\n"
           "layers.0.ffn.shared_experts.w1.weight L [32, 160]\n"
           "layers.0.ffn.shared_experts.w2.weight L [160, 32]\n"
           "layers.0.ffn.shared_experts.w3.weight L [32, 160]\n");
}

TEST(families_of_compressed_layers) {
  const std::string overlapping = listing(kernels::layer_tensors(tiny::parsed(), 1));
  CHECK(overlapping.find("layers.1.attn.compressor.ape [4, 96]\n"
                         "layers.1.attn.compressor.wkv.weight [96, 160]\n"
                         "layers.1.attn.compressor.wgate.weight [96, 160]\n"
                         "layers.1.attn.compressor.norm.weight [48]\n"
                         "layers.1.attn.indexer.wq_b.weight L [64, 48]\n"
                         "layers.1.attn.indexer.weights_proj.weight [2, 160]\n"
                         "layers.1.attn.indexer.compressor.ape [4, 64]\n"
                         "layers.1.attn.indexer.compressor.wkv.weight [64, 160]\n"
                         "layers.1.attn.indexer.compressor.wgate.weight [64, 160]\n"
                         "layers.1.attn.indexer.compressor.norm.weight [32]\n") != std::string::npos);
  CHECK(overlapping.find("layers.1.ffn.gate.bias [4]\n") != std::string::npos);
  CHECK(overlapping.find("tid2eid") == std::string::npos);
  const std::string plain = listing(kernels::layer_tensors(tiny::parsed(), 2));
  CHECK(plain.find("layers.2.attn.compressor.ape [16, 48]\n"
                   "layers.2.attn.compressor.wkv.weight [48, 160]\n") != std::string::npos);
  CHECK(plain.find("indexer") == std::string::npos);
}

TEST(every_expert_has_three_linears) {
  int experts = 0;
  for (const kernels::ExpectedTensor& tensor : kernels::layer_tensors(tiny::parsed(), 3))
    if (tensor.name.find(".experts.") != std::string::npos) {
      CHECK(tensor.storage == kernels::Storage::Linear);
      const bool down = tensor.name.find(".w2.") != std::string::npos;
      CHECK(tensor.shape == (down ? std::vector<std::int64_t>({160, 32}) : std::vector<std::int64_t>({32, 160})));
      ++experts;
    }
  CHECK_EQ(experts, 4 * 3);
}

TEST(each_format_of_linears_is_accepted) {
  for (const char* tag : {"F32", "BF16", "F8_E4M3", "I8"}) check_all(tiny::tensors(tiny::parsed(), tag));
}

TEST(formats_may_differ_from_tensor_to_tensor) {
  std::vector<tiny::Stored> tensors = tiny::tensors(tiny::parsed(), "F8_E4M3");
  for (tiny::Stored& tensor : tensors) {
    if (tensor.name == "layers.0.attn.wq_a.weight") tensor = {tensor.name, "I8", {48, 80}};
    if (tensor.name == "layers.0.attn.wq_a.scale") tensor = {tensor.name, "F8_E8M0", {48, 5}};
    if (tensor.name == "embed.weight") tensor.tag = "BF16";
    if (tensor.name == "layers.0.ffn.gate.tid2eid") tensor.tag = "I32";
  }
  check_all(tensors);
}

TEST(mtp_is_free) {
  std::vector<tiny::Stored> tensors = tiny::tensors(tiny::parsed(), "BF16");
  tensors.push_back({"mtp.7.of.any.kind", "C64", {1, 2, 3, 4}});
  check_all(tensors);
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(), [](const tiny::Stored& t) { return kernels::is_mtp(t.name); }),
                tensors.end());
  check_all(tensors);
}

TEST(missing_tensors_are_named_with_what_is_allowed) {
  CHECK_EQ(refusal("F8_E4M3", "norm.weight", erase()), "index: norm.weight|no such tensor|F32 or BF16 [160]");
  CHECK_EQ(refusal("F8_E4M3", "layers.3.attn.wkv.weight", erase()),
           "index: layers.3.attn.wkv.weight|no such tensor|F32, BF16, F8_E4M3 or I8 (FP4) for logical [48, 160]");
  CHECK_EQ(refusal("F8_E4M3", "layers.3.attn.wkv.scale", erase()),
           "index: layers.3.attn.wkv.scale|no such tensor|F8_E8M0 [1, 2] beside the F8_E4M3 weight");
  CHECK_EQ(refusal("I8", "layers.3.ffn.experts.3.w2.scale", erase()),
           "index: layers.3.ffn.experts.3.w2.scale|no such tensor|F8_E8M0 [160, 1] beside the I8 (FP4) weight");
}

TEST(unknown_tensors_are_refused_by_name) {
  CHECK_EQ(
      refusal("BF16", "norm.weight", add({"layers.4.attn_norm.weight", "F32", {160}})),
      "shard: layers.4.attn_norm.weight|an unknown tensor|the tensors of the official layout for this config.json, and mtp.*");
  CHECK_EQ(refusal("BF16", "norm.weight",
                   [](auto& tensors, std::size_t) {
                     tensors.push_back({"z", "F32", {1}});
                     tensors.push_back({"mtpx", "F32", {1}});
                   }),
           "shard: mtpx|an unknown tensor, first of 2|the tensors of the official layout for this config.json, and mtp.*");
  CHECK_EQ(refusal("BF16", "norm.weight", add({"layers.0.ffn.gate.bias", "F32", {4}})),
           "shard: layers.0.ffn.gate.bias|an unknown tensor|the tensors of the official layout for this config.json, and mtp.*");
}

TEST(wrong_shapes_are_refused) {
  CHECK_EQ(refusal("BF16", "norm.weight", store("F32", {161})), "shard: norm.weight|F32 [161]|F32 or BF16 [160]");
  CHECK_EQ(refusal("BF16", "norm.weight", store("F32", {160, 1})), "shard: norm.weight|F32 [160, 1]|F32 or BF16 [160]");
  CHECK_EQ(refusal("BF16", "hc_head_scale", store("F32", {})), "shard: hc_head_scale|F32 []|F32 or BF16 [1]");
  CHECK_EQ(refusal("BF16", "layers.0.attn.wkv.weight", store("BF16", {160, 48})),
           "shard: layers.0.attn.wkv.weight|BF16 [160, 48]|F32, BF16, F8_E4M3 or I8 (FP4, half the columns) [48, 160]");
  CHECK_EQ(refusal("F8_E4M3", "layers.0.attn.wkv.weight", store("F8_E4M3", {48, 80})),
           "shard: layers.0.attn.wkv.weight|F8_E4M3 [48, 80]|F8_E4M3 [48, 160]");
  CHECK_EQ(refusal("F8_E4M3", "layers.0.attn.wq_b.scale", store("F8_E8M0", {1, 1})),
           "shard: layers.0.attn.wq_b.scale|F8_E8M0 [1, 1]|F8_E8M0 [2, 1]");
  CHECK_EQ(refusal("I8", "layers.0.ffn.experts.0.w1.weight", store("I8", {32, 160})),
           "shard: layers.0.ffn.experts.0.w1.weight|I8 [32, 160]|I8 [32, 80]");
  CHECK_EQ(refusal("I8", "layers.0.ffn.experts.0.w1.scale", store("F8_E8M0", {1, 2})),
           "shard: layers.0.ffn.experts.0.w1.scale|F8_E8M0 [1, 2]|F8_E8M0 [32, 5]");
}

TEST(wrong_dtypes_are_refused) {
  CHECK_EQ(refusal("BF16", "norm.weight", store("F16", {160})), "shard: norm.weight|F16 [160]|F32 or BF16 [160]");
  CHECK_EQ(refusal("BF16", "embed.weight", store("F8_E4M3", {10, 160})),
           "shard: embed.weight|F8_E4M3 [10, 160]|F32 or BF16 [10, 160]");
  CHECK_EQ(refusal("BF16", "layers.0.ffn.gate.tid2eid", store("F32", {10, 2})),
           "shard: layers.0.ffn.gate.tid2eid|F32 [10, 2]|I64 or I32 [10, 2]");
  CHECK_EQ(refusal("BF16", "layers.0.attn.wkv.weight", store("F16", {48, 160})),
           "shard: layers.0.attn.wkv.weight|F16 [48, 160]|F32, BF16, F8_E4M3 or I8 (FP4, half the columns) [48, 160]");
  CHECK_EQ(refusal("F8_E4M3", "layers.0.attn.wkv.scale", store("BF16", {1, 2})),
           "shard: layers.0.attn.wkv.scale|BF16 [1, 2]|F8_E8M0 [1, 2]");
}

// Read as FP8, FP4 nibbles would give a model that runs and is wrong: the tag decides, so the shape must fit it.
TEST(fp4_and_fp8_are_told_apart_by_tag) {
  CHECK_EQ(refusal("I8", "layers.1.ffn.experts.0.w1.weight", store("F8_E4M3", {32, 80})),
           "shard: layers.1.ffn.experts.0.w1.weight|F8_E4M3 [32, 80]|F8_E4M3 [32, 160]");
  CHECK_EQ(refusal("F8_E4M3", "layers.1.ffn.experts.0.w1.weight", store("I8", {32, 160})),
           "shard: layers.1.ffn.experts.0.w1.weight|I8 [32, 160]|I8 [32, 80]");
}

TEST(fp4_needs_whole_blocks) {
  CHECK_EQ(refusal("F8_E4M3", "layers.0.attn.wq_b.weight", store("I8", {192, 24})),
           "shard: layers.0.attn.wq_b.weight|I8 (FP4) with 48 columns|FP4 with a multiple of 32 columns");
}

TEST(scales_stand_only_beside_quantised_weights) {
  CHECK_EQ(refusal("BF16", "norm.weight", add({"layers.0.attn.wkv.scale", "F8_E8M0", {1, 2}})),
           "shard: layers.0.attn.wkv.scale|a scale beside a BF16 weight|scales of F8_E4M3 and I8 (FP4) weights only");
}

TEST(float32_scales_are_refused_as_such) {
  CHECK_EQ(refusal("F8_E4M3", "layers.0.attn.wkv.scale", store("F32", {1, 2})),
           "shard: layers.0.attn.wkv.scale|an F32 scale, as Flash-Base stores them|F8_E8M0 [1, 2]: F32 scales are not supported");
}
