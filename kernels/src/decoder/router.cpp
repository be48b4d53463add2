#include "decoder/router.h"

#include <algorithm>
#include <cmath>

namespace kernels {
namespace {

// The `kept` experts of the highest selection scores, descending, the lower id first among equals. The bias selects and never weighs (known
// failure T19).
void choose(const float* scores, const std::vector<float>& bias, int kept, int* ids, float* selected) {
  int count = 0;
  for (int e = 0; e < static_cast<int>(bias.size()); ++e) {
    const float score = scores[e] + bias[static_cast<std::size_t>(e)];
    if (count == kept && !(score > selected[count - 1])) continue;
    int at = count < kept ? count++ : count - 1;
    for (; at > 0 && score > selected[at - 1]; --at) ids[at] = ids[at - 1], selected[at] = selected[at - 1];
    ids[at] = e, selected[at] = score;
  }
}

}  // namespace

Route route(const Pass& pass, int l, int token, float* scores, const std::vector<int>& forced) {
  const Config& c = pass.model.config();
  const Layer& layer = pass.model.layers[l];
  const int experts = c.n_routed_experts, k = c.num_experts_per_tok;
  Route out;
  out.margin = HUGE_VALF;
  pass.ops.sqrt_softplus(scores, experts, scores);
  if (layer.hashed) {
    pass.model.hash_route(l, token, out.ids);
  } else {
    int ids[kMaxTerms + 1];
    float selected[kMaxTerms + 1];
    choose(scores, layer.gate_bias, std::min(experts, k + 1), ids, selected);
    std::copy_n(ids, k, out.ids);
    if (experts > k) out.margin = selected[k - 1] - selected[k];
  }
  std::copy(forced.begin(), forced.end(), out.ids);
  float sum = 0;  // router order
  for (int rank = 0; rank < k; ++rank) sum += scores[out.ids[rank]];
  for (int rank = 0; rank < k; ++rank) out.weights[rank] = scores[out.ids[rank]] / sum * c.routed_scaling_factor;
  return out;
}

}  // namespace kernels
