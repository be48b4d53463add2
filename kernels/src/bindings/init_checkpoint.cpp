#include <filesystem>

#include "bindings/bindings.h"
#include "bindings/checkpoint_handle.h"
#include "decoder/state.h"

using kernels::Checkpoint;
using kernels::Config;

namespace {

// Each part goes in as label, length and bytes, so that no two sets of files give one pre-image.
std::string identity(const Checkpoint& checkpoint) {
  const py::object digest = py::module_::import("hashlib").attr("sha256")();
  for (const auto& [label, bytes] : checkpoint.identity_parts())
    digest.attr("update")(py::bytes(label + '\0' + std::to_string(bytes.size()) + '\0' + bytes));
  return digest.attr("hexdigest")().cast<std::string>();
}

std::string content_digest(const Checkpoint& checkpoint) {
  const py::object digest = py::module_::import("hashlib").attr("sha256")();
  for (const Checkpoint::Range& range : checkpoint.content_ranges()) {
    digest.attr("update")(py::bytes(range.name + '\0' + std::to_string(range.bytes) + '\0'));
    digest.attr("update")(py::memoryview::from_memory(range.data, static_cast<py::ssize_t>(range.bytes)));
  }
  return digest.attr("hexdigest")().cast<std::string>();
}

CheckpointHandle open(const std::filesystem::path& directory) {
  std::shared_ptr<const Checkpoint> core;
  {
    const py::gil_scoped_release release;
    core = Checkpoint::open(directory.string());
  }
  return {core, identity(*core)};
}

}  // namespace

void init_checkpoint(py::module_& m) {
  py::class_<Config>(m, "Config")
#define FIELD(name) .def_readonly(#name, &Config::name)
      FIELD(vocab_size) FIELD(hidden_size) FIELD(num_hidden_layers) FIELD(num_attention_heads) FIELD(head_dim) FIELD(qk_rope_head_dim)
      FIELD(q_lora_rank) FIELD(o_lora_rank) FIELD(o_groups) FIELD(n_routed_experts) FIELD(num_experts_per_tok)
      FIELD(moe_intermediate_size) FIELD(routed_scaling_factor) FIELD(swiglu_limit) FIELD(num_hash_layers) FIELD(sliding_window)
      FIELD(compress_rope_theta) FIELD(rope_theta) FIELD(yarn_factor) FIELD(yarn_original_max_position_embeddings)
      FIELD(yarn_beta_fast) FIELD(yarn_beta_slow) FIELD(max_position_embeddings) FIELD(index_n_heads) FIELD(index_head_dim)
      FIELD(index_topk) FIELD(hc_mult) FIELD(hc_sinkhorn_iters) FIELD(hc_eps) FIELD(rms_norm_eps) FIELD(bos_token_id)
      FIELD(eos_token_id) FIELD(num_nextn_predict_layers)
#undef FIELD
      .def_property_readonly("compress_ratios", [](const Config& c) { return py::tuple(py::cast(c.compress_ratios)); });

  py::class_<CheckpointHandle>(m, "Checkpoint")
      .def_static("open", &open, py::arg("directory"))
      .def_property_readonly("directory", [](const CheckpointHandle& c) { return c.core->directory(); })
      .def_property_readonly("config", [](const CheckpointHandle& c) { return Config(c.core->config()); })
      .def_property_readonly("tensor_count", [](const CheckpointHandle& c) { return c.core->tensor_count(); })
      .def_property_readonly("skipped_tensor_count", [](const CheckpointHandle& c) { return c.core->skipped_tensor_count(); })
      .def_property_readonly("total_bytes", [](const CheckpointHandle& c) { return c.core->total_bytes(); })
      .def_property_readonly("dtype_counts", [](const CheckpointHandle& c) { return c.core->dtype_counts(); })
      .def_property_readonly("shards", [](const CheckpointHandle& c) {
        std::vector<std::pair<std::string, std::uint64_t>> out;
        for (const auto& shard : c.core->shards()) out.emplace_back(shard.name, shard.length);
        return out;
      })
      .def_readonly("identity", &CheckpointHandle::identity)
      .def("content_digest", [](const CheckpointHandle& c) { return content_digest(*c.core); });

  m.def(
      "state_value_count", [](const Config& config, std::int64_t position) { return kernels::state_value_count(config, position + 1); },
      py::arg("config"), py::arg("position"));
}
