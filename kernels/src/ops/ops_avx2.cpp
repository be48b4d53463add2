// Every include stands before the pragma: code shared with other files must not be compiled for an instruction set that a host may lack.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/double_tables.h"
#include "ops/ops.h"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace kernels {
namespace {
namespace avx2 {
#include "ops/lanes_avx2.inc"
#include "ops/elementary.inc"
#include "ops/doubles.inc"
#include "ops/weight_rows.inc"
#include "ops/packed_f32.inc"
#include "ops/linear_many.inc"
#include "ops/linear.inc"
#include "ops/body.inc"
}  // namespace avx2
}  // namespace
}  // namespace kernels
#pragma GCC pop_options

namespace kernels {
namespace {
const Ops table = avx2::make_table("avx2");
}

const Ops* avx2_ops() {
  const bool present = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  return present ? &table : nullptr;
}
}  // namespace kernels
#else
namespace kernels {
const Ops* avx2_ops() { return nullptr; }
}  // namespace kernels
#endif
