// Manifold-constrained hyper-connections: how a block reads the residual streams and writes them back (reference section 5).
#include <cmath>

#include "decoder/pass.h"

namespace kernels {

void hyper_connection_pre(Pass& pass, const HyperConnection& hc, const std::vector<float>& norm) {
  const Config& c = pass.model.config();
  const int n = c.hc_mult, wide = n * c.hidden_size;
  const Arena::Scope scope(pass.arena);
  const Buffer m(pass.arena, pass.count(), (2 + n) * n), gates(pass.arena, pass.count(), 2 * n);
  pass.linear({pass.task(hc.fn, pass.streams, pass.streams, m, false)});
  pass.pool.run(pass.count(), 1, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      // scaled after the product (reference section 5)
      const float g = 1.0f / std::sqrt(pass.ops.dot(pass.streams[i], pass.streams[i], wide) / static_cast<float>(wide) + c.rms_norm_eps);
      const auto mixed = [&](int at, int group) { return m[i][at] * g * hc.scale[group] + hc.base[at]; };
      for (int s = 0; s < 2 * n; ++s) gates[i][s] = mixed(s, s / n);
      for (int s = 0; s < n * n; ++s) pass.mix_comb[i][s] = mixed(2 * n + s, 2);
      pass.ops.sigmoid(gates[i], 2 * n, gates[i]);
    }
    pass.ops.sinkhorn(pass.mix_comb.rows() + begin, static_cast<int>(end - begin), n, c.hc_sinkhorn_iters, c.hc_eps);
    for (std::int64_t i = begin; i < end; ++i) {
      float *pre = gates[i], *post = gates[i] + n;
      for (int s = 0; s < n; ++s) pre[s] += c.hc_eps, pass.mix_post[i][s] = 2.0f * post[s];
      pass.ops.mix(pass.streams[i], pre, n, c.hidden_size, pass.official, pass.x[i]);
      pass.ops.rms_norm(pass.x[i], norm.data(), c.hidden_size, c.rms_norm_eps, pass.official, pass.x[i]);
      if (pass.official) pass.ops.quantise_e4m3(pass.x[i], c.hidden_size, 128, pass.x8[i]);
    }
  });
}

void hyper_connection_post(Pass& pass) {
  const Config& c = pass.model.config();
  pass.for_each_item([&](std::int64_t i) {
    pass.ops.hc_post(pass.y[i], pass.mix_post[i], pass.mix_comb[i], c.hc_mult, c.hidden_size, pass.official, pass.streams[i]);
  });
}

}  // namespace kernels
