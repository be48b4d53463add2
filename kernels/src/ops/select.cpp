#include <cstdlib>
#include <string>

#include "checkpoint/errors.h"
#include "ops/ops.h"

namespace kernels {
namespace {

const Ops& choose() {
  const char* forced = std::getenv("RUNNER_ISA");
  if (forced == nullptr || *forced == '\0') {
    if (const Ops* table = avx512_ops()) return *table;
    if (const Ops* table = avx2_ops()) return *table;
    return *scalar_ops();
  }
  const std::string name = forced;
  const Ops* table = name == "scalar" ? scalar_ops() : name == "avx2" ? avx2_ops() : name == "avx512" ? avx512_ops() : nullptr;
  if (table == nullptr) throw KernelError("RUNNER_ISA: found " + name + ", allowed: scalar, avx2, avx512, as far as this CPU has them");
  return *table;
}

}  // namespace

const Ops& ops() {
  static const Ops& chosen = choose();
  return chosen;
}

}  // namespace kernels
