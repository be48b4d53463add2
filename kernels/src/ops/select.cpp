#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "checkpoint/errors.h"
#include "ops/ops.h"

namespace kernels {
namespace {

// BF16 pairs are twice the multiply-adds a cycle of FP32 lanes on AMD's processors (measured on Zen 4), and half on Intel's that have them.
bool bf16_pays() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

const Ops& choose() {
  std::vector<const Ops*> all = available_ops();
  const char* forced = std::getenv("RUNNER_ISA");
  if (forced == nullptr || *forced == '\0') {
    if (!bf16_pays()) std::erase(all, avx512_bf16_ops());
    return *all.back();
  }
  const std::string name = forced;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Ops* table) { return table->name == name; });
  if (found == all.end()) throw KernelError("RUNNER_ISA: found " + name + ", allowed: scalar, avx2, avx512, avx512_bf16, as far as this CPU has them");
  return **found;
}

}  // namespace

std::vector<const Ops*> available_ops() {
  std::vector<const Ops*> out = {scalar_ops(), avx2_ops(), avx512_ops(), avx512_bf16_ops()};
  std::erase(out, nullptr);
  return out;
}

const Ops& ops() {
  static const Ops& chosen = choose();
  return chosen;
}

}  // namespace kernels
