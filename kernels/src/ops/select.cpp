#include <cstdlib>
#include <string>

#include "checkpoint/errors.h"
#include "ops/ops.h"

namespace kernels {
namespace {

// BF16 pairs are twice the multiply-adds a cycle of FP32 lanes on AMD's processors (measured on Zen 4), and half on Intel's that have them.
bool bf16_pays() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") && avx512_bf16_ops() != nullptr;
#else
  return false;
#endif
}

const Ops& choose() {
  const char* forced = std::getenv("RUNNER_ISA");
  if (forced == nullptr || *forced == '\0') {
    if (bf16_pays()) return *avx512_bf16_ops();
    if (const Ops* table = avx512_ops()) return *table;
    if (const Ops* table = avx2_ops()) return *table;
    return *scalar_ops();
  }
  const std::string name = forced;
  const Ops* table = name == "scalar" ? scalar_ops() : name == "avx2" ? avx2_ops() : name == "avx512" ? avx512_ops() : name == "avx512_bf16" ? avx512_bf16_ops() : nullptr;
  if (table == nullptr) throw KernelError("RUNNER_ISA: found " + name + ", allowed: scalar, avx2, avx512, avx512_bf16, as far as this CPU has them");
  return *table;
}

}  // namespace

const Ops& ops() {
  static const Ops& chosen = choose();
  return chosen;
}

}  // namespace kernels
