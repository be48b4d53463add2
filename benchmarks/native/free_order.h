// Our matrix product with the order of its sums freed: what invariance costs. Benchmarks only.
#pragma once

#include "ops/matrix.h"

namespace bench {

// y[b][r] = W[r] . x[b] for r in [begin, end), b in [0, batch). One row: a block's products are summed before the block's scale multiplies
// their sum. Several: lanes run across the batch, so that no sum over lanes is left, and columns are taken in panels.
using FreeLinear = void (*)(const kernels::Matrix& w, int begin, int end, const float* const* x, float* const* y, int batch);

// nullptr where the CPU lacks the instruction set.
FreeLinear free_linear_avx2();
FreeLinear free_linear_avx512();
FreeLinear free_linear_avx512_bf16();

}  // namespace bench
