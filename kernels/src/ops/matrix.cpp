#include "ops/matrix.h"

#include <limits>

namespace kernels {
namespace {

constexpr float power_of_two(int e) {
  float v = 1;
  for (int i = 0; i < (e < 0 ? -e : e); ++i) v *= e < 0 ? 0.5f : 2.0f;
  return v;
}

constexpr float e4m3(int code) {
  const int e = (code >> 3) & 15, m = code & 7;
  if (e == 15 && m == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = e == 0 ? m * power_of_two(-9) : (1 + m / 8.0f) * power_of_two(e - 7);
  return code & 0x80 ? -magnitude : magnitude;
}

}  // namespace

#define E1(c) e4m3(c)
#define E4(c) E1(c), E1(c + 1), E1(c + 2), E1(c + 3)
#define E16(c) E4(c), E4(c + 4), E4(c + 8), E4(c + 12)
#define E64(c) E16(c), E16(c + 16), E16(c + 32), E16(c + 48)
const float kE4M3[256] = {E64(0), E64(64), E64(128), E64(192)};
const float kE2M1[16] = {0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -.5f, -1, -1.5f, -2, -3, -4, -6};

}  // namespace kernels
