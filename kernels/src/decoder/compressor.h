// Compression of a window of tokens into one key row (reference section 8).
#pragma once

#include "decoder/pass.h"

namespace kernels {

// What one token brings: projections of the normed attention input, FP32.
struct CompressorInput {
  const float* kv;                // [width]
  const float* score;             // [width], before ape
};

// Writes the token at `position` into the running state and, when it closes a window, appends the finished row. `indexed`: the indexer's
// compressor, whose rows are Hadamard-turned and FP4-simulated; the main one's are rotated and FP8-simulated. Token-by-token semantics:
// nothing is cleared (reference section 8.4).
void advance(const Pass& pass, const Compressor& compressor, bool indexed, std::int64_t position, const CompressorInput& input,
             Compression& state, Journal& journal);

}  // namespace kernels
