// A checkpoint's tensors by the role they play in a layer (reference sections 2 and 5). Matrices stay in the map; only vectors that a
// token reads whole (norms, biases, sinks, mHC bases) are widened to FP32 once.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "ops/matrix.h"

namespace kernels {

struct HyperConnection {          // mHC mix of one block
  Matrix fn;                      // F32 [(2+hc)*hc, hc*D]; the head's has hc rows
  std::vector<float> scale;       // [3]; the head's [1]
  std::vector<float> base;        // [(2+hc)*hc]; the head's [hc]
};

struct Compressor {
  int ratio = 0;                  // tokens a row
  int dim = 0;                    // d of a finished row
  int width = 0;                  // c*d of a state row, c = 2 when windows overlap (ratio 4)
  Matrix wkv, wgate;              // [width, D]
  std::vector<float> ape;         // [ratio, width]
  std::vector<float> norm;        // [dim]
};

struct Indexer {
  Matrix wq_b;                    // [ih*id, q_lora]
  Matrix weights_proj;            // [ih, D]
  Compressor compressor;
};

struct Expert {
  Matrix w1, w3;                  // [I, D]: gate and up
  Matrix w2;                      // [D, I]
};

struct Layer {
  int ratio = 0;                  // compress_ratios[l]
  HyperConnection hc_attn, hc_ffn;
  std::vector<float> attn_norm, ffn_norm;  // [D]
  // attention
  Matrix wq_a;                    // [q_lora, D]
  std::vector<float> q_norm;      // [q_lora]
  Matrix wq_b;                    // [H*hd, q_lora]
  Matrix wkv;                     // [hd, D]
  std::vector<float> kv_norm;     // [hd]
  std::vector<float> attn_sink;   // [H]
  Matrix wo_a;                    // [o_groups*o_lora, H*hd/o_groups]; rows g*o_lora.. see group g's heads only
  Matrix wo_b;                    // [D, o_groups*o_lora]
  Compressor compressor;          // ratio != 0
  Indexer indexer;                // ratio == 4
  // feed-forward
  Matrix gate;                    // [E, D]
  bool hashed = false;
  const Tensor* tid2eid = nullptr;  // hashed: [V, k], I64 or I32
  std::vector<float> gate_bias;   // not hashed: [E]
  std::vector<Expert> experts;    // [E]
  Expert shared;
};

class Model {
 public:
  explicit Model(std::shared_ptr<const Checkpoint> checkpoint);

  const Config& config() const { return checkpoint_->config(); }
  Matrix head;                    // [V, D]
  std::vector<float> norm;        // [D]
  HyperConnection hc_head;
  std::vector<Layer> layers;      // [L]

  // Embedding row of a token, widened to FP32 [D].
  void embedding(int token, float* out) const;
  // The expert ids of a token in a hash layer, [k], in table order. Throws CheckpointError when the table names an expert that does not exist.
  void hash_route(int layer, int token, int* ids) const;

 private:
  Matrix matrix(const std::string& name) const;
  std::vector<float> vector(const std::string& name) const;
  HyperConnection hyper_connection(const std::string& prefix) const;
  Compressor compressor(const std::string& prefix, int ratio, int dim) const;
  Expert expert(const std::string& prefix) const;

  std::shared_ptr<const Checkpoint> checkpoint_;  // keeps the maps alive
};

}  // namespace kernels
