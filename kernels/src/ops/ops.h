// The arithmetic of the decoder as a table of functions, one table per instruction set. Each is pure: a result depends on the arguments'
// values alone, so rows, threads and batches cannot change a bit (held by tests/kernels/test_bits.py).
//
// "round" asks for the BF16 rounding points of the reference page (official numerics); without it values stay FP32 (fp32 numerics).
// Every vector length n is a multiple of 16 unless said otherwise. Sums of products: 16 lanes (lane = index mod 16), FMA in ascending
// index, one tree at the end.
#pragma once

#include <cstddef>
#include <vector>

#include "ops/matrix.h"

namespace kernels {

// Ops::linear's scratch, in floats.
constexpr int kManyRows = 16, kManyColumns = 256, kManyBatch = 64;
constexpr std::size_t linear_scratch(int cols) {
  return static_cast<std::size_t>(cols) * kManyBatch + kManyRows * kManyColumns + 16 * kManyRows * kManyBatch;
}

constexpr int kMostHeads = 4;    // that Ops::attend takes side by side
constexpr int kMostStreams = 8;  // that Ops::hc_post mixes

struct Ops {
  const char* name;

  // y[b][r] = W[r] . x[b] for r in [begin, end), b in [0, batch); round: to BF16. scratch: linear_scratch(cols) floats.
  void (*linear)(const Matrix& w, int begin, int end, const float* const* x, float* const* y, int batch, bool round, float* scratch);
  float (*dot)(const float* a, const float* b, int n);
  void (*round_bf16)(float* x, int n);
  // out = R(weight * (x / sqrt(mean(x^2) + eps))); reference section 5
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, bool round, float* out);
  // The per-head query norm with its five BF16 roundings, in place; reference section 7
  void (*head_norm)(float* q, int n, float eps, bool round);
  // Q8_b and Q4_32: block quantise-dequantise; a short last block is one block; reference section 3
  void (*quantise_e4m3)(const float* x, int n, int block, float* out);
  void (*quantise_e2m1)(const float* x, int n, float* out);
  // Sylvester-ordered Hadamard transform times n^-0.5, in place; n a power of two
  void (*hadamard)(float* x, int n, bool round);
  // Turns the pairs (x[2k], x[2k+1]), in place, by the angles whose cosines and signed sines stand twice each: cos[2k] = cos[2k+1],
  // sin[2k] = -sin[2k+1]; `inverse` turns back. Reference section 6
  void (*rotate)(float* x, const float* cos, const float* sin, int n, bool inverse, bool round);
  // Softmax attention over keys that are also the values; reference section 7. keys: the window's `window_count` rows oldest first, then
  // the compressed rows; list positions count the window as `window_size` slots. q, out: [heads, head_dim], sinks: [heads]; score: scratch of
  // kMostHeads blocks of 64.
  void (*attend)(const float* q, const float* const* keys, int window_count, int window_size, int key_count, int head_dim, int heads,
                 const float* sinks, bool round, float* score, float* out);
  // u[j] = sum_i softmax_i(score[i][j]) * kv[i][j]; reference section 8
  void (*pool)(const float* const* kv, const float* const* score, int count, int n, bool round, float* out);
  // out = R(gate * (silu(min(a, limit)) * clamp(b, +-limit))); limit <= 0: no clamp; reference section 10
  void (*swiglu)(const float* a, const float* b, int n, float limit, float gate, bool round, float* out);
  // out = R(sum_i w[i] * x[i]) over `count` streams [count, n]; reference section 5, hc_pre
  void (*mix)(const float* x, const float* w, int count, int n, bool round, float* out);
  // x[j] = R(post[j] * y + sum_i comb[i][j] * x[i]) over up to kMostStreams streams [count, n], in place; reference section 5, hc_post
  void (*hc_post)(const float* y, const float* post, const float* comb, int count, int n, bool round, float* x);
  // Expert aggregation (study 2.5): terms in the order of addition, from +0; then shared is added. round_terms, round_sums: to BF16 before
  // and after each addition; round_output: the last rounding.
  void (*aggregate)(const float* const* terms, int count, const float* shared, int n, bool round_terms, bool round_sums,
                    bool round_output, float* out);
  // scores[t] = R(sum_h R(max(R(q[h] . keys[t]), 0) * w[h])), heads in order; q: [heads, n], scores: room for `count` up to the next multiple
  // of 16; reference section 9
  void (*index_scores)(const float* q, const float* w, int heads, const float* const* keys, int count, int n, bool round, float* scores);
  // 1 / (1 + e^-x) and sqrt(log(1 + e^z)), in double, rounded once; any n
  void (*sigmoid)(const float* x, int n, float* out);
  void (*sqrt_softplus)(const float* z, int n, float* out);
  // Row softmax of `count` matrices C[i] [n, n] and `iterations` of column and row normalisation, in place; n up to 8; reference section 5
  void (*sinkhorn)(float* const* C, int count, int n, int iterations, float eps);
};

// The table in use: the fastest this CPU has, or the one RUNNER_ISA (scalar, avx2, avx512, avx512_bf16) forces. Throws KernelError when what is
// forced is unknown or not on this CPU.
const Ops& ops();

// nullptr where the CPU lacks it.
const Ops* scalar_ops();
const Ops* avx2_ops();
const Ops* avx512_ops();
const Ops* avx512_bf16_ops();

// Those that this CPU can run, the scalar one first.
std::vector<const Ops*> available_ops();

// Ops::linear of avx512_bf16 before it falls back to avx512's: false, and nothing of use in y, where the scalar bits can't be promised (see
// packed_bf16.inc). To be called only where avx512_bf16_ops() is not nullptr.
bool linear_by_bf16_pairs(const Matrix& w, int begin, int end, const float* const* x, float* const* y, int batch, bool round, float* scratch);

}  // namespace kernels
