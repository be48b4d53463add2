#include "decoder/router.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kernels {

Route route(const Pass& pass, int l, int token, const float* logits, const std::vector<int>& forced) {
  const Config& c = pass.model.config();
  const Layer& layer = pass.model.layers[l];
  const int experts = c.n_routed_experts, k = c.num_experts_per_tok;
  Route out;
  out.margin = HUGE_VALF;
  out.scores.resize(experts);
  pass.ops.sqrt_softplus(logits, experts, out.scores.data());
  if (layer.hashed) {
    out.ids = pass.model.hash_route(l, token);
  } else {
    std::vector<float> selection(experts);  // the bias selects and never weighs (known failure T19)
    for (int e = 0; e < experts; ++e) selection[e] = out.scores[e] + layer.gate_bias[e];
    std::vector<int> order(experts);
    std::iota(order.begin(), order.end(), 0);
    const int looked = std::min(experts, k + 1);
    std::partial_sort(order.begin(), order.begin() + looked, order.end(),
                      [&](int a, int b) { return selection[a] != selection[b] ? selection[a] > selection[b] : a < b; });
    out.ids.assign(order.begin(), order.begin() + k);
    if (experts > k) out.margin = selection[order[k - 1]] - selection[order[k]];
  }
  if (!forced.empty()) out.ids = forced;
  float sum = 0;  // router order
  for (const int id : out.ids) sum += out.scores[id];
  for (const int id : out.ids) out.weights.push_back(out.scores[id] / sum * c.routed_scaling_factor);
  return out;
}

}  // namespace kernels
