// Every include stands before the pragma: code shared with other files must not be compiled for an instruction set that a host may lack.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/double_tables.h"
#include "ops/ops.h"

#if defined(__x86_64__)
#include <immintrin.h>

// GCC 12 sees its own _mm512_undefined_*() as an uninitialised read once it is inlined.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c")
namespace kernels {
namespace {
namespace avx512 {
#include "ops/lanes_avx512.inc"
#include "ops/elementary.inc"
#include "ops/doubles.inc"
#include "ops/weight_rows.inc"
#include "ops/packed_f32.inc"
#include "ops/linear_many.inc"
#include "ops/linear.inc"
#include "ops/body.inc"
}  // namespace avx512
}  // namespace
}  // namespace kernels
#pragma GCC pop_options

namespace kernels {
namespace {
const Ops table = avx512::make_table("avx512");
}

const Ops* avx512_ops() {
  const bool present = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         avx2_ops() != nullptr;
  return present ? &table : nullptr;
}
}  // namespace kernels
#else
namespace kernels {
const Ops* avx512_ops() { return nullptr; }
}  // namespace kernels
#endif
