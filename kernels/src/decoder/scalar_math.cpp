#include "decoder/scalar_math.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace kernels {
namespace {

constexpr double kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;  // high part has trailing zeros: n * high is exact
// pi/2 in three parts, each product with an integer below 2^22 exact but for the last
constexpr double kHalfPi1 = 0x1.921fb544p+0, kHalfPi2 = 0x1.0b4611a6p-34, kHalfPi3 = 0x1.3198a2e037073p-69;
constexpr double kMagic = 0x1.8p52;  // adding it rounds to an integer

double power_of_two(int e) {
  const std::uint64_t u = static_cast<std::uint64_t>(e + 1023) << 52;
  double v;
  std::memcpy(&v, &u, 8);
  return v;
}

template <int N> struct Table { double v[N]; };
constexpr Table<17> kInverseFactorial = [] {
  Table<17> t{};
  double f = 1;
  for (int i = 0; i < 17; ++i, f *= i) t.v[i] = 1 / f;
  return t;
}();
constexpr Table<19> kInverseOdd = [] {
  Table<19> t{};
  for (int i = 0; i < 19; ++i) t.v[i] = 1.0 / (2 * i + 1);
  return t;
}();

// 2 * atanh(s) = 2 (s + s^3/3 + s^5/5 + ...), |s| <= 1/3
double twice_atanh(double s) {
  const double s2 = s * s;
  double sum = 0;
  for (int i = 18; i >= 1; --i) sum = (sum + kInverseOdd.v[i]) * s2;
  return 2 * (s + s * sum);
}

}  // namespace

double exp_double(double x) {
  if (x != x) return x;
  if (x < -700) return 0;
  if (x > 700) return HUGE_VAL;
  const double n = (x * 1.4426950408889634 + kMagic) - kMagic;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double sum = kInverseFactorial.v[16];
  for (int i = 15; i >= 0; --i) sum = kInverseFactorial.v[i] + sum * r;
  return sum * power_of_two(static_cast<int>(n));
}

double log_double(double x) {
  std::uint64_t u;
  std::memcpy(&u, &x, 8);
  int e = static_cast<int>(u >> 52) - 1023;
  u = (u & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
  double m;
  std::memcpy(&m, &u, 8);
  if (m > 1.4142135623730951) m *= 0.5, ++e;
  return e * kLn2High + (e * kLn2Low + twice_atanh((m - 1) / (m + 1)));
}

double log1p_double(double y) { return twice_atanh(y / (2 + y)); }

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
