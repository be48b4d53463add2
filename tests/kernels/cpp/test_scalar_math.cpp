#include "decoder/scalar_math.h"

#include <cmath>

#include "check.h"

// The host's library is a reference to a few ulps here, not to the bit: that is why the decoder does not use it.
TEST(elementary_functions_are_accurate) {
  for (int i = 1; i <= 20000; ++i) {
    const double t = i / 20000.0, x = -40 + 80 * t;
    CHECK(std::fabs(kernels::exp_double(x) / std::exp(x) - 1) < 1e-15);
    const double y = std::exp(-30 + 60 * t);
    CHECK(std::fabs(kernels::log_double(y) - std::log(y)) < 1e-15 * std::fmax(1.0, std::fabs(std::log(y))));
    double s, c;
    kernels::sin_cos_double(1e6 * t, &s, &c);
    CHECK(std::fabs(s - std::sin(1e6 * t)) < 1e-15 && std::fabs(c - std::cos(1e6 * t)) < 1e-15);
  }
}

TEST(exp_holds_beyond_its_range) {
  CHECK_EQ(kernels::exp_double(-800), 0.0);
  CHECK_EQ(kernels::exp_double(800), HUGE_VAL);
  CHECK(std::isnan(kernels::exp_double(NAN)));
}
