// BF16 rounding of one value: nearest, ties to even; infinities and NaN only lose their low bits (reference section 3).
#pragma once

#include <cstdint>
#include <cstring>

namespace kernels {

inline float round_bf16(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, 4);
  if ((u & 0x7FFFFFFFu) < 0x7F800000u) u += 0x7FFFu + ((u >> 16) & 1u);
  u &= 0xFFFF0000u;
  std::memcpy(&x, &u, 4);
  return x;
}

}  // namespace kernels
