// Manifold-constrained hyper-connections: how a block reads the residual streams and writes them back (reference section 5).
#include <algorithm>
#include <cmath>

#include "decoder/pass.h"
#include "decoder/scalar_math.h"

namespace kernels {
namespace {

// Row softmax, then alternating column and row normalisation, the column first (known failure T21). C [n, n], in place.
void sinkhorn(float* C, int n, int iterations, float eps) {
  for (int i = 0; i < n; ++i) {
    float* row = C + i * n;
    const float top = *std::max_element(row, row + n);
    float sum = 0;
    for (int j = 0; j < n; ++j) {
      row[j] = static_cast<float>(exp_double(static_cast<double>(row[j]) - top));
      sum += row[j];
    }
    for (int j = 0; j < n; ++j) row[j] = row[j] / sum + eps;
  }
  const auto normalise = [&](int stride_out, int stride_in) {
    for (int i = 0; i < n; ++i) {
      float sum = 0;
      for (int j = 0; j < n; ++j) sum += C[i * stride_out + j * stride_in];
      for (int j = 0; j < n; ++j) C[i * stride_out + j * stride_in] /= sum + eps;
    }
  };
  for (int k = 0; k < iterations; ++k) {
    if (k > 0) normalise(n, 1);
    normalise(1, n);
  }
}

}  // namespace

void hyper_connection_pre(Pass& pass, const HyperConnection& hc, const std::vector<float>& norm) {
  const Config& c = pass.model.config();
  const int n = c.hc_mult, wide = n * c.hidden_size;
  const Arena::Scope scope(pass.arena);
  const Buffer m(pass.arena, pass.count(), (2 + n) * n);
  pass.linear({pass.task(hc.fn, pass.streams, pass.streams, m, false)});
  pass.for_each_item([&](std::int64_t i) {
    const float* v = pass.streams[i];
    // scaled after the product (reference section 5)
    const float g = 1.0f / std::sqrt(pass.ops.dot(v, v, wide) / static_cast<float>(wide) + c.rms_norm_eps);
    const auto mixed = [&](int at, int group) { return m[i][at] * g * hc.scale[group] + hc.base[at]; };
    float pre[kMaxStreams];
    for (int s = 0; s < n; ++s) pre[s] = sigmoid(mixed(s, 0)) + c.hc_eps;
    for (int s = 0; s < n; ++s) pass.mix_post[i][s] = 2.0f * sigmoid(mixed(n + s, 1));
    for (int s = 0; s < n * n; ++s) pass.mix_comb[i][s] = mixed(2 * n + s, 2);
    sinkhorn(pass.mix_comb[i], n, c.hc_sinkhorn_iters, c.hc_eps);
    pass.ops.mix(v, pre, n, c.hidden_size, pass.official, pass.x[i]);
    pass.ops.rms_norm(pass.x[i], norm.data(), c.hidden_size, c.rms_norm_eps, pass.official, pass.x[i]);
    if (pass.official) pass.ops.quantise_e4m3(pass.x[i], c.hidden_size, 128, pass.x8[i]);
  });
}

void hyper_connection_post(Pass& pass) {
  const Config& c = pass.model.config();
  pass.for_each_item([&](std::int64_t i) {
    pass.ops.hc_post(pass.y[i], pass.streams[i], pass.mix_post[i], pass.mix_comb[i], c.hc_mult, c.hidden_size, pass.official,
                     pass.next_streams[i]);
  });
  std::swap(pass.streams, pass.next_streams);
}

}  // namespace kernels
