// Constants of the elementary functions in double precision.
#pragma once

namespace kernels {

template <int N> struct DoubleTable { double v[N]; };

constexpr DoubleTable<17> kInverseFactorial = [] {
  DoubleTable<17> t{};
  double f = 1;
  for (int i = 0; i < 17; ++i, f *= i) t.v[i] = 1 / f;
  return t;
}();
constexpr DoubleTable<19> kInverseOdd = [] {
  DoubleTable<19> t{};
  for (int i = 0; i < 19; ++i) t.v[i] = 1.0 / (2 * i + 1);
  return t;
}();
constexpr double kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;  // high part has trailing zeros: n * high is exact
constexpr double kMagic = 0x1.8p52;                                              // adding it rounds to an integer

}  // namespace kernels
