// Which experts a token meets and with what weight (reference section 10).
#pragma once

#include <vector>

#include "decoder/pass.h"
#include "decoder/schemes.h"

namespace kernels {

struct Route {
  int ids[kMaxTerms];             // [k] router order: selection score descending, then lower id; hash layers: table order
  float weights[kMaxTerms];       // [k] gate weights of these ids
  float margin;                   // selection-score gap between ranks k and k+1; inf where nothing competes (hash layers)
};

// scores: [E], in: the gate's logits, FP32; out: the unbiased scores. `forced`: ids that replace the choice, or none.
Route route(const Pass& pass, int layer, int token, float* scores, const std::vector<int>& forced);

}  // namespace kernels
