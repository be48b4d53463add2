#include "decoder/indexer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "decoder/bf16.h"

namespace kernels {

void prepare_query(const Pass& pass, const Angles& angles, float* query) {
  const Config& c = pass.model.config();
  for (int h = 0; h < c.index_n_heads; ++h) {
    float* q = query + static_cast<std::size_t>(h) * c.index_head_dim;
    pass.rope.rotate(pass.ops, q, c.index_head_dim, angles, false, pass.official);
    if (!pass.official) continue;  // the rotation cancels in exact arithmetic
    pass.ops.hadamard(q, c.index_head_dim, true);
    pass.ops.quantise_e2m1(q, c.index_head_dim, q);
  }
}

IndexSelection select_rows(const Pass& pass, const float* query, const float* weights, const std::vector<RowPtr>& rows, int count) {
  const Config& c = pass.model.config();
  std::vector<float> scores(count), dots(count);
  std::vector<const float*> keys(count);
  for (int t = 0; t < count; ++t) keys[t] = rows[t].get();
  for (int h = 0; h < c.index_n_heads; ++h) {  // each score: heads ascending, plain additions
    pass.ops.dots(query + static_cast<std::size_t>(h) * c.index_head_dim, keys.data(), count, c.index_head_dim, dots.data());
    if (pass.official)
      for (int t = 0; t < count; ++t) scores[t] += round_bf16(std::max(round_bf16(dots[t]), 0.0f) * weights[h]);
    else
      for (int t = 0; t < count; ++t) scores[t] += std::max(dots[t], 0.0f) * weights[h];
  }
  if (pass.official)
    for (int t = 0; t < count; ++t) scores[t] = round_bf16(scores[t]);
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  const int kept = std::min(count, c.index_topk), looked = std::min(count, kept + 1);
  // ties: higher score, then lower row (known failure T16)
  std::partial_sort(order.begin(), order.begin() + looked, order.end(),
                    [&](int a, int b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  IndexSelection out;
  out.margin = count > kept && kept > 0 ? scores[order[kept - 1]] - scores[order[kept]] : HUGE_VALF;
  out.rows.assign(order.begin(), order.begin() + kept);
  return out;
}

}  // namespace kernels
