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
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx512vbmi,avx512bf16,avx2,fma,f16c")
namespace kernels {
namespace {
namespace avx512_bf16 {
#include "ops/lanes_avx512.inc"
#include "ops/elementary.inc"
#include "ops/weight_rows.inc"
#include "ops/packed_bf16.inc"
#include "ops/linear_many.inc"
#include "ops/linear_bf16.inc"

bool exact(const Matrix& w, int begin, int end, const float* const* x, float* const* y, int batch, bool round, float* scratch) {
  switch (w.format) {
    case Format::F32: return false;
    case Format::BF16: return linear_of<Format::BF16>(w, begin, end, x, y, batch, round, scratch);
    case Format::E4M3: return linear_of<Format::E4M3>(w, begin, end, x, y, batch, round, scratch);
    case Format::E2M1: return linear_of<Format::E2M1>(w, begin, end, x, y, batch, round, scratch);
  }
  return false;
}

// Whether the instruction is what packed_bf16.inc takes it for: a fused multiply-add of the upper halves, then one of the lower. It is so defined,
// but an emulator or a processor to come may round once for both.
bool adds_one_after_the_other() {
  std::uint32_t random = 1;
  const auto draw = [&] { return random = random * 1664525u + 1013904223u; };
  for (int trial = 0; trial < 256; ++trial) {
    alignas(64) std::uint32_t w[16], x[16], sums[16], found[16];
    alignas(64) float first[2][16], second[2][16], acc[16];
    for (int j = 0; j < 16; ++j) {
      // products near the last bits of the sum, with few bits of their own, so that many of them are ties
      const auto bf16 = [&] { return (draw() >> 16 & 0x8060u) | (110u + (draw() >> 28)) << 7; };
      w[j] = bf16() << 16 | bf16(), x[j] = bf16() << 16 | bf16();
      sums[j] = (draw() & 0x807FFFFFu) | (112u + (draw() >> 27)) << 23;
      const std::uint32_t halves[4] = {w[j] & 0xFFFF0000u, x[j] & 0xFFFF0000u, w[j] << 16, x[j] << 16};
      std::memcpy(&first[0][j], &halves[0], 4), std::memcpy(&first[1][j], &halves[1], 4);
      std::memcpy(&second[0][j], &halves[2], 4), std::memcpy(&second[1][j], &halves[3], 4);
    }
    std::memcpy(acc, sums, sizeof acc);
    const V expected = fma(load(second[0]), load(second[1]), fma(load(first[0]), load(first[1]), load(acc)));
    _mm512_store_ps(reinterpret_cast<float*>(found), dot_pairs(_mm512_load_si512(w), _mm512_load_si512(x), load(acc).v));
    if (_mm512_cmpneq_epi32_mask(_mm512_load_si512(found), bits(expected).v) != 0) return false;
  }
  return true;
}

}  // namespace avx512_bf16
}  // namespace
}  // namespace kernels
#pragma GCC pop_options

namespace kernels {
namespace {

void linear(const Matrix& w, int begin, int end, const float* const* x, float* const* y, int batch, bool round, float* scratch) {
  if (!linear_by_bf16_pairs(w, begin, end, x, y, batch, round, scratch)) avx512_ops()->linear(w, begin, end, x, y, batch, round, scratch);
}

// All of AVX-512's but the products.
const Ops* make_table() {
  if (avx512_ops() == nullptr || !__builtin_cpu_supports("avx512vbmi") || !__builtin_cpu_supports("avx512bf16")) return nullptr;
  if (!avx512_bf16::adds_one_after_the_other()) return nullptr;
  static Ops table = *avx512_ops();
  table.name = "avx512_bf16";
  table.linear = linear;
  return &table;
}

}  // namespace

bool linear_by_bf16_pairs(const Matrix& w, int begin, int end, const float* const* x, float* const* y, int batch, bool round, float* scratch) {
  return avx512_bf16::exact(w, begin, end, x, y, batch, round, scratch);
}

const Ops* avx512_bf16_ops() {
  static const Ops* const table = make_table();
  return table;
}
}  // namespace kernels
#else
namespace kernels {
bool linear_by_bf16_pairs(const Matrix&, int, int, const float* const*, float* const*, int, bool, float*) { return false; }
const Ops* avx512_bf16_ops() { return nullptr; }
}  // namespace kernels
#endif
