#include "decoder/model.h"

#include <cstring>
#include <string>

#include "checkpoint/errors.h"

namespace kernels {
namespace {

float widen_bf16(const std::uint8_t* p) {
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  const std::uint32_t u = static_cast<std::uint32_t>(h) << 16;
  float v;
  std::memcpy(&v, &u, 4);
  return v;
}

void widen(const Tensor& t, std::int64_t begin, std::int64_t count, float* out) {
  if (t.dtype == DType::F32) {
    std::memcpy(out, t.data + 4 * begin, 4 * static_cast<std::size_t>(count));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) out[i] = widen_bf16(t.data + 2 * (begin + i));
}

}  // namespace

Model::Model(std::shared_ptr<const Checkpoint> checkpoint) : checkpoint_(std::move(checkpoint)) {
  const Config& c = config();
  head = matrix("head");
  norm = vector("norm.weight");
  hc_head = hyper_connection("hc_head");
  layers.resize(c.num_hidden_layers);
  for (int l = 0; l < c.num_hidden_layers; ++l) {
    const std::string p = "layers." + std::to_string(l), a = p + ".attn", f = p + ".ffn";
    Layer& layer = layers[l];
    layer.ratio = c.compress_ratios[l];
    layer.hc_attn = hyper_connection(p + ".hc_attn");
    layer.hc_ffn = hyper_connection(p + ".hc_ffn");
    layer.attn_norm = vector(p + ".attn_norm.weight");
    layer.ffn_norm = vector(p + ".ffn_norm.weight");
    layer.wq_a = matrix(a + ".wq_a");
    layer.q_norm = vector(a + ".q_norm.weight");
    layer.wq_b = matrix(a + ".wq_b");
    layer.wkv = matrix(a + ".wkv");
    layer.kv_norm = vector(a + ".kv_norm.weight");
    layer.attn_sink = vector(a + ".attn_sink");
    layer.wo_b = matrix(a + ".wo_b");
    if (layer.ratio != 0) layer.compressor = compressor(a + ".compressor", layer.ratio, c.head_dim);
    if (layer.ratio == 4) {
      layer.indexer.wq_b = matrix(a + ".indexer.wq_b");
      layer.indexer.weights_proj = matrix(a + ".indexer.weights_proj");
      layer.indexer.compressor = compressor(a + ".indexer.compressor", 4, c.index_head_dim);
    }
    layer.wo_a = matrix(a + ".wo_a");
    layer.gate = matrix(f + ".gate");
    layer.hashed = l < c.num_hash_layers;
    if (layer.hashed) layer.tid2eid = &checkpoint_->tensor(f + ".gate.tid2eid");
    else layer.gate_bias = vector(f + ".gate.bias");
    for (int e = 0; e < c.n_routed_experts; ++e) layer.experts.push_back(expert(f + ".experts." + std::to_string(e)));
    layer.shared = expert(f + ".shared_experts");
  }
}

Matrix Model::matrix(const std::string& name) const {
  const Tensor* t = checkpoint_->find(name + ".weight");
  const Tensor& tensor = t ? *t : checkpoint_->tensor(name);
  Matrix m;
  m.rows = static_cast<int>(tensor.shape[0]);
  m.cols = static_cast<int>(tensor.shape[1]);
  m.data = tensor.data;
  switch (tensor.dtype) {
    case DType::F32: m.format = Format::F32; break;
    case DType::BF16: m.format = Format::BF16; break;
    case DType::F8_E4M3: m.format = Format::E4M3; break;
    default: m.format = Format::E2M1; m.cols *= 2; break;  // I8 nibbles; open() allows no other
  }
  if (m.quantised()) m.scale = checkpoint_->tensor(name + ".scale").data;
  return m;
}

std::vector<float> Model::vector(const std::string& name) const {
  const Tensor& t = checkpoint_->tensor(name);
  std::vector<float> out(static_cast<std::size_t>(t.shape[0] * t.shape[1]));
  widen(t, 0, static_cast<std::int64_t>(out.size()), out.data());
  return out;
}

HyperConnection Model::hyper_connection(const std::string& prefix) const {
  return {matrix(prefix + "_fn"), vector(prefix + "_scale"), vector(prefix + "_base")};
}

Compressor Model::compressor(const std::string& prefix, int ratio, int dim) const {
  Compressor c;
  c.ratio = ratio;
  c.dim = dim;
  c.wkv = matrix(prefix + ".wkv");
  c.wgate = matrix(prefix + ".wgate");
  c.width = c.wkv.rows;
  c.ape = vector(prefix + ".ape");
  c.norm = vector(prefix + ".norm.weight");
  return c;
}

Expert Model::expert(const std::string& prefix) const {
  return {matrix(prefix + ".w1"), matrix(prefix + ".w3"), matrix(prefix + ".w2")};
}

void Model::embedding(int token, float* out) const {
  const std::int64_t d = config().hidden_size;
  widen(checkpoint_->tensor("embed.weight"), token * d, d, out);
}

void Model::hash_route(int layer, int token, int* ids) const {
  const Tensor& t = *layers[layer].tid2eid;
  const int k = config().num_experts_per_tok;
  for (int i = 0; i < k; ++i) {
    const std::size_t at = static_cast<std::size_t>(token) * k + i;
    std::int64_t id = 0;
    if (t.dtype == DType::I64) {
      std::memcpy(&id, t.data + 8 * at, 8);
    } else {
      std::int32_t narrow;
      std::memcpy(&narrow, t.data + 4 * at, 4);
      id = narrow;
    }
    if (id < 0 || id >= config().n_routed_experts)
      throw CheckpointError(checkpoint_->directory(), "layers." + std::to_string(layer) + ".ffn.gate.tid2eid[" + std::to_string(token) + "]",
                            std::to_string(id), "0 to " + std::to_string(config().n_routed_experts - 1));
    ids[i] = static_cast<int>(id);
  }
}

}  // namespace kernels
