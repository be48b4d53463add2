#include "decoder/indexer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kernels {

void prepare_queries(const Pass& pass, const Angles& angles, float* queries, std::int64_t count) {
  const Config& c = pass.model.config();
  for (std::int64_t h = 0; h < count; ++h) {
    float* q = queries + h * c.index_head_dim;
    pass.rope.rotate(pass.ops, q, c.index_head_dim, angles, false, pass.official);
    if (!pass.official) continue;  // the rotation cancels in exact arithmetic
    pass.ops.hadamard(q, c.index_head_dim, true);
    pass.ops.quantise_e2m1(q, c.index_head_dim, q);
  }
}

IndexSelection select_rows(const Pass& pass, const float* query, const float* weights, const std::vector<RowPtr>& rows, int count) {
  const Config& c = pass.model.config();
  std::vector<float> scores(static_cast<std::size_t>(count + 15) / 16 * 16);
  std::vector<const float*> keys(count);
  for (int t = 0; t < count; ++t) keys[t] = rows[t].get();
  pass.ops.index_scores(query, weights, c.index_n_heads, keys.data(), count, c.index_head_dim, pass.official, scores.data());
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
