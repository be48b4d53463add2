// Rotary position embedding (reference section 6).
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/config.h"
#include "ops/ops.h"

namespace kernels {

struct Angles {                   // one position's rotation, as Ops::rotate takes it
  std::vector<float> cos, sin;    // [rd]
};

class Rope {
 public:
  explicit Rope(const Config& config);
  // Angles at a position: FP32 product of position and frequency, then FP32 sine and cosine of that.
  Angles angles(std::int64_t position, bool compressed) const;
  // Rotates the last rd dims of x[head_dim] in place, pair k being dims (2k, 2k+1) of the slice; `inverse` turns back.
  // round: to BF16, the rotated dims only.
  void rotate(const Ops& ops, float* x, int head_dim, const Angles& angles, bool inverse, bool round) const {
    ops.rotate(x + head_dim - dims_, angles.cos.data(), angles.sin.data(), dims_, inverse, round);
  }

 private:
  int dims_;                               // rd
  std::vector<float> plain_, compressed_;  // frequencies [rd/2]: layers with ratio 0, and all others (YaRN)
};

}  // namespace kernels
