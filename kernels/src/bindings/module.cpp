#include "bindings/bindings.h"

#include "ops/ops.h"

namespace {

py::dict cpu_features() {
  py::dict out;
#if defined(__x86_64__)
#define FEATURE(name) out[name] = static_cast<bool>(__builtin_cpu_supports(name))
  FEATURE("avx2");
  FEATURE("fma");
  FEATURE("f16c");
  FEATURE("avx512f");
  FEATURE("avx512vl");
  FEATURE("avx512bw");
  FEATURE("avx512dq");
  FEATURE("avx512vbmi");
  FEATURE("avx512bf16");
#undef FEATURE
#endif
  return out;
}

}  // namespace

std::string sha256_hex(const std::string& bytes) {
  return py::module_::import("hashlib").attr("sha256")(py::bytes(bytes)).attr("hexdigest")().cast<std::string>();
}

PYBIND11_MODULE(_kernels, m) {
  m.doc() = "Compiled DeepSeek-V4 decoder; the contract is _kernels.pyi";
  m.attr("BUILD_ID") = RUNNER_BUILD_ID;
  m.def("cpu_features", &cpu_features);
  m.def("instruction_set", [] { return std::string(kernels::ops().name); });
  m.def("instruction_sets", [] {
    std::vector<std::string> names;
    for (const kernels::Ops* ops : kernels::available_ops()) names.emplace_back(ops->name);
    return names;
  });
  init_errors(m);
  init_checkpoint(m);
  init_schemes(m);
  init_intervention(m);
  init_decoder(m);
}
