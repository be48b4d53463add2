#include "decoder/rope.h"

#include <algorithm>
#include <cmath>

#include "decoder/scalar_math.h"

namespace kernels {
namespace {

constexpr double kTwoPi = 6.283185307179586;

double frequency(double base, int pair, int dims) { return exp_double(-2.0 * pair / dims * log_double(base)); }

// the pair index at which a wave turns `turns` times within the original context
double correction(const Config& c, double turns) {
  return c.qk_rope_head_dim * log_double(c.yarn_original_max_position_embeddings / (turns * kTwoPi)) / (2 * log_double(c.compress_rope_theta));
}

}  // namespace

Rope::Rope(const Config& c) : dims_(c.qk_rope_head_dim) {
  const bool yarn = c.yarn_original_max_position_embeddings > 0;
  double low = 0, high = 0;
  if (yarn) {
    low = std::max(std::floor(correction(c, c.yarn_beta_fast)), 0.0);
    high = std::min(std::ceil(correction(c, c.yarn_beta_slow)), dims_ - 1.0);
  }
  const double width = high == low ? 0.001 : high - low;
  for (int k = 0; k < dims_ / 2; ++k) {
    plain_.push_back(static_cast<float>(frequency(c.rope_theta, k, dims_)));
    const double f = frequency(c.compress_rope_theta, k, dims_);
    const double ramp = yarn ? std::clamp((k - low) / width, 0.0, 1.0) : 0.0;
    compressed_.push_back(static_cast<float>(f / c.yarn_factor * ramp + f * (1 - ramp)));
  }
}

Angles Rope::angles(std::int64_t position, bool compressed) const {
  const std::vector<float>& frequencies = compressed ? compressed_ : plain_;
  Angles out;
  for (const float f : frequencies) {
    double s, c;
    sin_cos_double(static_cast<float>(position) * f, &s, &c);
    out.cos.insert(out.cos.end(), 2, static_cast<float>(c));
    out.sin.push_back(-static_cast<float>(s));
    out.sin.push_back(static_cast<float>(s));
  }
  return out;
}

}  // namespace kernels
