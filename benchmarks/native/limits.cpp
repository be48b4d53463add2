// What the machine could do: fused multiply-adds a second in FP32 lanes of each instruction set, and bytes read a second from memory.
//
//   limits --threads N --repetitions R --megabytes M [--cpu-clock 1]
//
// prints, for one thread and for N, {"fma": [{isa, threads, gfma: [..]}], "memory": [{threads, gb: [..]}]}; gfma counts 1e9 lane FMAs a
// second, gb 1e9 bytes a second.
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "bench.h"

namespace {

constexpr int kChains = 12;  // more than latency times pipes of any current core, and few enough for sixteen registers
constexpr std::int64_t kSteps = 4'000'000;

// Keeps a result from being optimised away.
volatile float sink;

__attribute__((target("avx2,fma"))) void fma_avx2() {
  __m256 acc[kChains];
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int i = 0; i < kChains; ++i) acc[i] = _mm256_set1_ps(static_cast<float>(i));
  for (std::int64_t step = 0; step < kSteps; ++step)
    for (int i = 0; i < kChains; ++i) acc[i] = _mm256_fmadd_ps(acc[i], a, b);
  for (int i = 1; i < kChains; ++i) acc[0] = _mm256_add_ps(acc[0], acc[i]);
  sink = _mm256_cvtss_f32(acc[0]);
}

__attribute__((target("avx512f"))) void fma_avx512() {
  __m512 acc[kChains];
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int i = 0; i < kChains; ++i) acc[i] = _mm512_set1_ps(static_cast<float>(i));
  for (std::int64_t step = 0; step < kSteps; ++step)
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_fmadd_ps(acc[i], a, b);
  for (int i = 1; i < kChains; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  sink = _mm512_cvtss_f32(acc[0]);
}

__attribute__((target("avx512f,avx512bf16"))) void fma_bf16() {
  __m512 acc[kChains];
  const __m512bh a = (__m512bh)_mm512_set1_epi16(0x3F7F), b = (__m512bh)_mm512_set1_epi16(0x3A83);
  for (int i = 0; i < kChains; ++i) acc[i] = _mm512_set1_ps(static_cast<float>(i));
  for (std::int64_t step = 0; step < kSteps; ++step)
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_dpbf16_ps(acc[i], a, b);
  for (int i = 1; i < kChains; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  sink = _mm512_cvtss_f32(acc[0]);
}

struct Kind {
  const char* isa;
  int lanes;  // multiply-adds an instruction
  void (*run)();
  bool present;
};

std::uint64_t read_all(const std::uint64_t* data, std::size_t count) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8)
    for (int j = 0; j < 8; ++j) sums[j] += data[i + j];
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

int main(int argc, char** argv) {
  bench::cpu_clock = bench::option(argc, argv, "cpu-clock", 0) != 0;
  const int most = bench::option(argc, argv, "threads", 1), repetitions = bench::option(argc, argv, "repetitions", 7);
  const std::size_t bytes = static_cast<std::size_t>(bench::option(argc, argv, "megabytes", 1024)) << 20;
  const Kind kinds[] = {{"avx2", 8, fma_avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
                        {"avx512", 16, fma_avx512, static_cast<bool>(__builtin_cpu_supports("avx512f"))},
                        {"avx512_bf16", 32, fma_bf16, static_cast<bool>(__builtin_cpu_supports("avx512bf16"))}};
  std::printf("{\"fma\": [");
  const char* between = "";
  for (const Kind& kind : kinds) {
    if (!kind.present) continue;
    for (int threads = 1; threads <= most; threads = threads < most ? most : most + 1) {
      const auto seconds = bench::time_repeated(repetitions, threads, [&] { bench::run_together(threads, [&](int) { kind.run(); }); });
      std::printf("%s{\"isa\": \"%s\", \"threads\": %d, \"gfma\": ", between, kind.isa, threads);
      bench::print_rates(1e-9 * kind.lanes * kChains * static_cast<double>(kSteps) * threads, seconds);
      std::printf("}");
      between = ", ";
    }
  }
  std::printf("], \"memory\": [");
  const auto data = std::make_unique<std::uint64_t[]>(bytes / 8);
  std::memset(data.get(), 1, bytes);
  between = "";
  for (int threads = 1; threads <= most; threads = threads < most ? most : most + 1) {
    std::atomic<std::uint64_t> total{0};
    const std::size_t part = bytes / 8 / static_cast<std::size_t>(threads);
    const auto seconds = bench::time_repeated(
        repetitions, threads, [&] { bench::run_together(threads, [&](int t) { total += read_all(data.get() + static_cast<std::size_t>(t) * part, part); }); });
    sink = static_cast<float>(total);
    std::printf("%s{\"threads\": %d, \"gb\": ", between, threads);
    bench::print_rates(1e-9 * 8.0 * static_cast<double>(part) * threads, seconds);
    std::printf("}");
    between = ", ";
  }
  std::printf("]}\n");
}
