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
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx512vbmi,avx512bf16,avx2,fma,f16c")
namespace kernels {
namespace {
namespace free_avx512_bf16 {
#include "ops/lanes_avx512.inc"
#include "ops/weight_rows.inc"
#include "ops/packed_bf16.inc"

// As in packed_bf16.inc, but columns stay where decoding leaves them: word p of sixty-four is column column_of<F>(p), and no chain has an
// order to keep. Scales in range, inputs BF16 values, columns a multiple of 128, no NaN.

constexpr int kPanel = 512;  // columns of a panel
constexpr int kTile = 6, kGroups = 4, kLanes = 16;

template <Format F> constexpr int column_of(int p) {
  if constexpr (F == Format::E2M1) return 2 * (p % 32) + p / 32;  // the lower nibbles, then the upper
  return p % 32 / 8 * 16 + p % 8 + 8 * (p / 32);                    // the lower eight bytes of each sixteen, then the upper
}

template <Format F> inline TwoSteps decoded(const std::uint8_t* scales, const std::uint8_t* row, int k) {
  if constexpr (F == Format::E2M1) {
    // a block of thirty-two columns is the half of a word's bytes, so two scales share a table: the second's values lie sixteen further
    const __m512i bytes = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + k / 2)));
    const __m512i first = _mm512_load_si512(kScaledE2M1.of[scales[k / 32]]), second = _mm512_load_si512(kScaledE2M1.of[scales[k / 32 + 1]]);
    const __m512i table = _mm512_inserti64x4(first, _mm512_castsi512_si256(second), 1);
    const __m512i place = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(16), 1);
    const auto values = [&](__m512i nibbles) {
      return _mm512_permutexvar_epi16(_mm512_ternarylogic_epi32(nibbles, _mm512_set1_epi16(15), place, 0xEA), table);  // nibbles & 15 | place
    };
    return {values(bytes), values(_mm512_srli_epi16(bytes, 4))};
  } else {
    return e4m3_words(_mm512_loadu_si512(row + k));
  }
}

inline std::uint16_t upper(float v) {
  std::uint32_t u;
  std::memcpy(&u, &v, 4);
  return static_cast<std::uint16_t>(u >> 16);
}

template <Format F, int N> inline void one(const Matrix& w, int row, const std::uint16_t* x, float* y) {
  const std::size_t stride = column_bytes<F>(w.cols);
  __m512 acc[N][2];
  for (auto& sums : acc) sums[0] = sums[1] = _mm512_setzero_ps();
  for (int k = 0; k < w.cols; k += 64) {
    const __m512i first = _mm512_loadu_si512(x + k), second = _mm512_loadu_si512(x + k + 32);
    for (int i = 0; i < N; ++i) {
      const std::uint8_t* codes = weight_row<F>(w, row + i);
      fetch<column_bytes<F>(64)>(codes + N * stride + column_bytes<F>(k));
      const TwoSteps weights = decoded<F>(scale_row<F>(w, row + i), codes, k);
      acc[i][0] = dot_pairs(weights.first, first, acc[i][0]);
      acc[i][1] = dot_pairs(weights.second, second, acc[i][1]);
    }
  }
  for (int i = 0; i < N; ++i) y[row + i] = _mm512_reduce_add_ps(_mm512_add_ps(acc[i][0], acc[i][1]));
}

// Columns of a vector in the order of decoded weights.
template <Format F> inline void order(const float* x, int columns, std::uint16_t* out) {
  for (int k = 0; k < columns; k += 64)
    for (int p = 0; p < 64; ++p) out[k + p] = upper(x[k + column_of<F>(p)]);
}

template <Format F> inline void linear_one(const Matrix& w, int begin, int end, const float* x, float* y) {
  thread_local std::vector<std::uint16_t> ordered, scaled_x;
  ordered.resize(static_cast<std::size_t>(w.cols));
  scaled_x.resize(static_cast<std::size_t>(w.cols));
  order<F>(x, w.cols, ordered.data());
  for (int row = begin; row < end;) {
    int stop = end;
    if constexpr (F == Format::E4M3) {
      stop = std::min(end, row / 128 * 128 + 128);
      scale_vector(w, row, ordered.data(), scaled_x.data());
    }
    const std::uint16_t* vector = F == Format::E4M3 ? scaled_x.data() : ordered.data();
    for (; row + 4 <= stop; row += 4) one<F, 4>(w, row, vector, y);
    for (; row < stop; ++row) one<F, 1>(w, row, vector, y);
  }
}

// N weight rows of a panel against G groups of sixteen vectors: xt [pairs of columns][batch padded to 16], sums [N][padded]
template <int N, int G> inline void free_tile(const std::uint32_t* weights, int pairs, const std::uint32_t* xt, int padded, float* sums) {
  __m512 acc[N][G];
  for (int i = 0; i < N; ++i)
    for (int g = 0; g < G; ++g) acc[i][g] = _mm512_loadu_ps(sums + i * padded + g * kLanes);
  for (int k = 0; k < pairs; ++k) {
    __m512i xk[G];
    for (int g = 0; g < G; ++g) xk[g] = _mm512_loadu_si512(xt + static_cast<std::size_t>(k) * padded + g * kLanes);
    for (int i = 0; i < N; ++i) {
      const __m512i wk = _mm512_set1_epi32(static_cast<int>(weights[i * (kPanel / 2) + k]));
      for (int g = 0; g < G; ++g) acc[i][g] = dot_pairs(wk, xk[g], acc[i][g]);
    }
  }
  for (int i = 0; i < N; ++i)
    for (int g = 0; g < G; ++g) _mm512_storeu_ps(sums + i * padded + g * kLanes, acc[i][g]);
}

template <Format F> inline void linear_many(const Matrix& w, int begin, int end, const float* const* x, float* const* y, int batch) {
  const int padded = (batch + kLanes - 1) / kLanes * kLanes, rows = end - begin;
  thread_local std::vector<std::uint32_t> xt, weights;
  thread_local std::vector<std::uint16_t> ordered;
  thread_local std::vector<float> sums;
  xt.resize(static_cast<std::size_t>(kPanel / 2) * padded);
  weights.resize(static_cast<std::size_t>(kPanel / 2) * kTile);
  ordered.resize(kPanel);
  sums.assign(static_cast<std::size_t>(rows + kTile) * padded, 0.0f);
  for (int from = 0; from < w.cols; from += kPanel) {
    const int columns = std::min(kPanel, w.cols - from);
    for (int b = 0; b < padded; ++b) {
      if (b < batch) order<F>(x[b] + from, columns, ordered.data());
      else std::fill(ordered.begin(), ordered.end(), std::uint16_t{0});
      for (int pair = 0; pair < columns / 2; ++pair) std::memcpy(&xt[static_cast<std::size_t>(pair) * padded + b], &ordered[static_cast<std::size_t>(2 * pair)], 4);
    }
    for (int row = begin; row < end; row += kTile) {
      for (int i = 0; i < kTile; ++i) {
        const int r = std::min(row + i, end - 1);
        for (int k = 0; k < columns; k += 64) {
          TwoSteps steps = decoded<F>(scale_row<F>(w, r), weight_row<F>(w, r), from + k);
          if constexpr (F == Format::E4M3) {
            const __m512i exponent = power(scale_row<F>(w, r)[(from + k) / 128]);
            steps = {times_power(steps.first, exponent), times_power(steps.second, exponent)};
          }
          std::uint32_t* to = &weights[static_cast<std::size_t>(i) * (kPanel / 2) + k / 2];
          _mm512_storeu_si512(to, steps.first);
          _mm512_storeu_si512(to + 16, steps.second);
        }
      }
      float* out = &sums[static_cast<std::size_t>(row - begin) * padded];
      int g = 0;
      for (; g + kGroups * kLanes <= padded; g += kGroups * kLanes) free_tile<kTile, kGroups>(weights.data(), columns / 2, &xt[g], padded, out + g);
      for (; g < padded; g += kLanes) free_tile<kTile, 1>(weights.data(), columns / 2, &xt[g], padded, out + g);
    }
  }
  for (int b = 0; b < batch; ++b)
    for (int row = begin; row < end; ++row) y[b][row] = sums[static_cast<std::size_t>(row - begin) * padded + b];
}

template <Format F> inline void product(const Matrix& w, int begin, int end, const float* const* x, float* const* y, int batch) {
  if (batch > 1) linear_many<F>(w, begin, end, x, y, batch);
  else linear_one<F>(w, begin, end, x[0], y[0]);
}

void free_linear(const Matrix& w, int begin, int end, const float* const* x, float* const* y, int batch) {
  if (w.format == Format::E2M1) product<Format::E2M1>(w, begin, end, x, y, batch);
  else product<Format::E4M3>(w, begin, end, x, y, batch);
}

}  // namespace free_avx512_bf16
}  // namespace
}  // namespace kernels
#pragma GCC pop_options

bench::FreeLinear bench::free_linear_avx512_bf16() { return kernels::avx512_bf16_ops() != nullptr ? kernels::free_avx512_bf16::free_linear : nullptr; }
