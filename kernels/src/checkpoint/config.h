// config.json of the official layout (reference section 1), parsed and validated.
#pragma once

#include <string>
#include <vector>

namespace kernels {

// What the decoder's fixed-size buffers hold; a config.json that asks for more is refused.
constexpr int kMaxExpertsPerTok = 8;
constexpr int kMaxHcMult = 8;
constexpr int kMaxPositions = 1 << 22;  // as far as rotary angles are exact products (decoder/scalar_math.h)

struct Config {
  int vocab_size = 0;                // V
  int hidden_size = 0;               // D
  int num_hidden_layers = 0;         // L
  int num_attention_heads = 0;       // H; keys and values share one head
  int head_dim = 0;                  // hd
  int qk_rope_head_dim = 0;          // rd, the last rd dims of a head are rotated
  int q_lora_rank = 0;
  int o_lora_rank = 0;
  int o_groups = 0;
  int n_routed_experts = 0;          // E
  int num_experts_per_tok = 0;       // k
  int moe_intermediate_size = 0;     // I, also the shared expert's width
  float routed_scaling_factor = 0;
  float swiglu_limit = 0;            // <= 0: no clamp
  int num_hash_layers = 0;
  int sliding_window = 0;            // W, includes the current token
  std::vector<int> compress_ratios;  // [L]: 0 sliding, 4 overlapping with indexer, else non-overlapping; the MTP entry is dropped
  double compress_rope_theta = 0;
  double rope_theta = 0;
  double yarn_factor = 1;            // rope_scaling.factor; 1 and original 0 without rope_scaling: no scaling
  int yarn_original_max_position_embeddings = 0;
  double yarn_beta_fast = 32;
  double yarn_beta_slow = 1;
  int max_position_embeddings = 0;
  int index_n_heads = 0;             // 0 when no layer has ratio 4
  int index_head_dim = 0;
  int index_topk = 0;
  int hc_mult = 0;                   // hc
  int hc_sinkhorn_iters = 0;
  float hc_eps = 0;
  float rms_norm_eps = 0;
  int bos_token_id = 0;
  int eos_token_id = 0;
  int num_nextn_predict_layers = 0;

  // Parses the bytes of config.json. `file` names it in errors. Throws CheckpointError.
  static Config parse(const std::string& text, const std::string& file);
};

}  // namespace kernels
