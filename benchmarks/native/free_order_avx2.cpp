// Every include stands before the pragma: code shared with other files must not be compiled for an instruction set that a host may lack.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <immintrin.h>

#include "free_order.h"
#include "ops/ops.h"

#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace kernels {
namespace {
namespace free_avx2 {
constexpr int kGroups = 1;  // groups of sixteen inputs in a tile: as many chains as the registers hold
#include "ops/lanes_avx2.inc"
#include "ops/weight_rows.inc"
#include "free_order.inc"
}  // namespace free_avx2
}  // namespace
}  // namespace kernels
#pragma GCC pop_options

bench::FreeLinear bench::free_linear_avx2() { return kernels::avx2_ops() != nullptr ? kernels::free_avx2::free_linear : nullptr; }
