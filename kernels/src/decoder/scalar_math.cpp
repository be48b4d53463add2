#include "decoder/scalar_math.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops/double_tables.h"

namespace kernels {
namespace {

// pi/2 in three parts, each product with an integer below 2^22 exact but for the last
constexpr double kHalfPi1 = 0x1.921fb544p+0, kHalfPi2 = 0x1.0b4611a6p-34, kHalfPi3 = 0x1.3198a2e037073p-69;
#include "ops/doubles.inc"

}  // namespace

double exp_double(double x) { return exp(spread(x))[0]; }

double log_double(double x) {
  std::uint64_t u;
  std::memcpy(&u, &x, 8);
  int e = static_cast<int>(u >> 52) - 1023;
  u = (u & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
  double m;
  std::memcpy(&m, &u, 8);
  if (m > 1.4142135623730951) m *= 0.5, ++e;
  return e * kLn2High + (e * kLn2Low + twice_atanh(spread((m - 1) / (m + 1)))[0]);
}

void sin_cos_double(double x, double* sin, double* cos) {
  const double n = (x * 0.63661977236758134 + kMagic) - kMagic;
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double r2 = r * r;
  double s = 1, c = 1;
  for (int i = 20; i >= 2; i -= 2) {
    s = 1 - s * r2 / (i * (i + 1));
    c = 1 - c * r2 / (i * (i - 1));
  }
  s *= r;
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0: *sin = s, *cos = c; break;
    case 1: *sin = c, *cos = -s; break;
    case 2: *sin = -s, *cos = -c; break;
    default: *sin = -c, *cos = s; break;
  }
}

}  // namespace kernels
