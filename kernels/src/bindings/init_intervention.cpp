#include "bindings/bindings.h"
#include "checkpoint/errors.h"
#include "decoder/intervention.h"

using kernels::Intervention;
using kernels::PostMhcDelta;

namespace {

std::vector<float> values(const FloatArray& array) { return {array.data(), array.data() + array.size()}; }

std::shared_ptr<Intervention> make(const std::map<int, std::pair<std::string, int>>& aggregation, const std::shared_ptr<PostMhcDelta>& delta,
                                   const std::map<int, std::vector<int>>& routes, const std::vector<std::string>& capture,
                                   const std::optional<std::vector<int>>& capture_layers) {
  auto out = std::make_shared<Intervention>();
  for (const auto& [layer, how] : aggregation) out->aggregation[layer] = {kernels::parse_scheme(how.first), how.second};
  if (delta) out->post_mhc_delta = *delta;
  out->routes = routes;
  for (const std::string& name : capture) {
    const kernels::Capture what = kernels::parse_capture(name);
    if (!out->captures(what)) out->capture.push_back(what);
  }
  if (capture_layers) {
    std::vector<int> layers = *capture_layers;
    std::sort(layers.begin(), layers.end());
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
    out->capture_layers = std::move(layers);
  }
  return out;
}

}  // namespace

void init_intervention(py::module_& m) {
  py::class_<PostMhcDelta, std::shared_ptr<PostMhcDelta>>(m, "PostMhcDelta")
      .def(py::init([](int layer, const FloatArray& delta, const FloatArray& before, const FloatArray& after) {
             return std::make_shared<PostMhcDelta>(PostMhcDelta{layer, values(delta), values(before), values(after)});
           }),
           py::arg("layer"), py::arg("delta"), py::arg("before"), py::arg("after"))
      .def_readonly("layer", &PostMhcDelta::layer);

  py::class_<Intervention, std::shared_ptr<Intervention>>(m, "Intervention")
      .def(py::init([](const std::optional<std::map<int, std::pair<std::string, int>>>& aggregation, std::shared_ptr<PostMhcDelta> delta,
                       const std::optional<std::map<int, std::vector<int>>>& routes, const std::vector<std::string>& capture,
                       const std::optional<std::vector<int>>& capture_layers) {
             return make(aggregation.value_or(std::map<int, std::pair<std::string, int>>{}), delta,
                         routes.value_or(std::map<int, std::vector<int>>{}), capture, capture_layers);
           }),
           py::kw_only(), py::arg("aggregation") = py::none(), py::arg("post_mhc_delta") = nullptr, py::arg("routes") = py::none(),
           py::arg("capture") = std::vector<std::string>{}, py::arg("capture_layers") = py::none());

  py::list names;
  for (int i = 0; i < kernels::kCaptures; ++i) names.append(kernels::capture_name(static_cast<kernels::Capture>(i)));
  m.attr("CAPTURES") = py::frozenset(names);
}
