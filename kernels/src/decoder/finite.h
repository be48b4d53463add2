// Whether values are numbers, neither NaN nor infinite.
#pragma once

namespace kernels {

inline bool all_finite(const float* x, int n) {
  unsigned bad = 0;
  for (int i = 0; i < n; ++i) bad |= x[i] - x[i] == 0.0f ? 0u : 1u;
  return bad == 0;
}

}  // namespace kernels
