// Which experts a token meets and with what weight (reference section 10).
#pragma once

#include <vector>

#include "decoder/pass.h"

namespace kernels {

struct Route {
  std::vector<int> ids;           // [k] router order: selection score descending, then lower id; hash layers: table order
  std::vector<float> weights;     // [k] gate weights of these ids
  std::vector<float> scores;      // [E] unbiased
  float margin;                   // selection-score gap between ranks k and k+1; inf where nothing competes (hash layers)
};

// logits: [E] of the gate, FP32. `forced`: ids that replace the choice, or none.
Route route(const Pass& pass, int layer, int token, const float* logits, const std::vector<int>& forced);

}  // namespace kernels
