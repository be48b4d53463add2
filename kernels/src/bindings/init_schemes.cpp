#include <algorithm>

#include "bindings/bindings.h"
#include "checkpoint/errors.h"
#include "decoder/schemes.h"
#include "decoder/thread_pool.h"

using kernels::InterventionError;

namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw InterventionError(message);
}

py::array aggregate(const FloatArray& terms, const FloatArray& shared, const std::string& name, const std::vector<int>& orders,
                    const std::optional<std::vector<int>>& expert_ids) {
  const kernels::Scheme scheme = kernels::parse_scheme(name);
  require(terms.ndim() == 2 && shared.ndim() == 1 && terms.shape(1) == shared.shape(0) && shared.shape(0) % 16 == 0,
          "aggregate: allowed: terms [k, D] and shared [D], D a multiple of 16");
  const int k = static_cast<int>(terms.shape(0)), n = static_cast<int>(shared.shape(0));
  require(k >= 1 && k <= kernels::kMaxTerms, "aggregate: found " + std::to_string(k) + " terms, allowed: 1 to 8");
  const bool native = scheme == kernels::Scheme::native;
  require(!native || (expert_ids && static_cast<int>(expert_ids->size()) == k), "aggregate: native needs k expert ids");
  std::vector<float> out(orders.size() * static_cast<std::size_t>(n));
  {
    const py::gil_scoped_release release;
    const kernels::FloatEnvironment environment;
    const float* rows[kernels::kMaxTerms];
    for (int i = 0; i < k; ++i) rows[i] = terms.data() + static_cast<std::size_t>(i) * n;
    for (std::size_t i = 0; i < orders.size(); ++i)
      kernels::aggregate(kernels::ops(), scheme, kernels::permutation(orders[i], k), rows, native ? expert_ids->data() : nullptr, k,
                         shared.data(), n, true, out.data() + i * n);
  }
  return take_array(std::move(out), {static_cast<py::ssize_t>(orders.size()), n});
}

py::array hc_post(const FloatArray& outputs, const FloatArray& residual, const FloatArray& post, const FloatArray& comb) {
  require(outputs.ndim() == 2 && residual.ndim() == 2 && post.ndim() == 1 && comb.ndim() == 2 && outputs.shape(1) == residual.shape(1) &&
              post.shape(0) == residual.shape(0) && comb.shape(0) == residual.shape(0) && comb.shape(1) == residual.shape(0) &&
              residual.shape(0) <= kernels::kMostStreams && residual.shape(1) % 16 == 0,
          "hc_post: allowed: outputs [n, D], residual [hc, D], post [hc], comb [hc, hc], hc up to " + std::to_string(kernels::kMostStreams) +
              ", D a multiple of 16");
  const auto n = outputs.shape(0);
  const int streams = static_cast<int>(residual.shape(0)), d = static_cast<int>(residual.shape(1));
  const std::size_t size = static_cast<std::size_t>(streams) * d;
  std::vector<float> out(static_cast<std::size_t>(n) * size);
  {
    const py::gil_scoped_release release;
    const kernels::FloatEnvironment environment;
    for (py::ssize_t i = 0; i < n; ++i) {
      float* x = out.data() + static_cast<std::size_t>(i) * size;
      std::copy_n(residual.data(), size, x);
      kernels::ops().hc_post(outputs.data() + i * d, post.data(), comb.data(), streams, d, true, x);
    }
  }
  return take_array(std::move(out), {n, streams, d});
}

}  // namespace

void init_schemes(py::module_& m) {
  m.def("permutation", [](int rank, int k) { return py::tuple(py::cast(kernels::permutation(rank, k))); }, py::arg("rank"), py::arg("k") = 6);
  m.def(
      "structural_classes",
      [](int k) {
        require(k >= 2 && k <= kernels::kMaxTerms, "k: found " + std::to_string(k) + ", allowed: 2 to 8");
        return kernels::structural_classes(k);
      },
      py::arg("k") = 6);
  m.def("aggregate", &aggregate, py::arg("terms"), py::arg("shared"), py::arg("scheme"), py::arg("orders"), py::kw_only(),
        py::arg("expert_ids") = py::none());
  m.def("hc_post", &hc_post, py::arg("outputs"), py::arg("residual"), py::arg("post"), py::arg("comb"));
}
