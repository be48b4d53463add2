#include "bindings/bindings.h"
#include "bindings/checkpoint_handle.h"
#include "checkpoint/errors.h"
#include "decoder/decoder.h"

using kernels::Decoder;
using kernels::Intervention;
using kernels::KernelError;
using kernels::Numerics;
using kernels::State;

namespace {

Numerics parse_numerics(const std::string& name) {
  if (name == "official") return Numerics::official;
  if (name == "fp32") return Numerics::fp32;
  throw KernelError("numerics: found " + name + ", allowed: official, fp32");
}

struct Row {
  std::shared_ptr<State> state;
  std::vector<int> tokens;
  std::shared_ptr<Intervention> intervention;
};

struct DecoderHandle {
  DecoderHandle(const CheckpointHandle& checkpoint, int threads, const std::string& numerics)
      : checkpoint(checkpoint), core(checkpoint.core, checkpoint.identity, threads, parse_numerics(numerics)) {}
  CheckpointHandle checkpoint;
  Decoder core;
};

struct StepResult {
  int token;
  py::array logits;
  py::dict captures;
};

StepResult to_python(kernels::RowResult& result) {
  StepResult out{result.token, {}, {}};
  const auto vocabulary = static_cast<py::ssize_t>(result.logits.size());
  out.logits = take_array(std::move(result.logits), {vocabulary});
  for (auto& [what, array] : result.captures) {
    std::vector<py::ssize_t> shape(array.shape.begin(), array.shape.end());
    out.captures[kernels::capture_name(what)] =
        kernels::holds_integers(what) ? take_array(std::move(array.integers), shape) : take_array(std::move(array.floats), shape);
  }
  return out;
}

std::vector<StepResult> step(DecoderHandle& decoder, const std::vector<Row>& rows) {
  static const Intervention kNative;
  std::vector<kernels::RowRequest> requests;
  for (const Row& row : rows) requests.push_back({row.state.get(), row.tokens, row.intervention ? row.intervention.get() : &kNative});
  std::vector<kernels::RowResult> results;
  {
    const py::gil_scoped_release release;
    results = decoder.core.step(requests);
  }
  std::vector<StepResult> out;
  for (kernels::RowResult& result : results) out.push_back(to_python(result));
  return out;
}

py::array state_values(const State& state) {
  std::vector<float> values(static_cast<std::size_t>(state.value_count()));
  state.write_values(values.data());
  const auto count = static_cast<py::ssize_t>(values.size());
  return take_array(std::move(values), {count});
}

void add_delta(State& state, const py::array& delta, const FloatArray& before, const FloatArray& after) {
  if (delta.size() != before.size() || delta.size() != after.size())
    throw kernels::StateMismatch("delta, before and after must have equal sizes");
  const kernels::FloatEnvironment environment;
  if (py::isinstance<py::array_t<double>>(delta)) {
    const py::array_t<double, py::array::c_style | py::array::forcecast> wide(delta);
    state.add_delta(wide.data(), before.data(), after.data(), wide.size());
  } else {
    const FloatArray narrow(delta);
    state.add_delta(narrow.data(), before.data(), after.data(), narrow.size());
  }
}

}  // namespace

void init_decoder(py::module_& m) {
  py::class_<State, std::shared_ptr<State>>(m, "State")
      .def_readonly("position", &State::position)
      .def("fork", [](const State& state) { return std::make_shared<State>(state); })
      .def("value_count", &State::value_count)
      .def("values", &state_values)
      .def("layout",
           [](const State& state) {
             py::list out;
             for (const kernels::Component& c : state.components())
               out.append(py::make_tuple(c.layer, c.name, c.offset, py::make_tuple(c.rows, c.width)));
             return out;
           })
      .def("serialise", [](const State& state) { return py::bytes(state.serialise()); })
      .def("sha256", [](const State& state) { return sha256_hex(state.serialise()); })
      .def("add_delta", &add_delta, py::arg("delta"), py::arg("before"), py::arg("after"));

  py::class_<Row>(m, "Row")
      .def(py::init<std::shared_ptr<State>, std::vector<int>, std::shared_ptr<Intervention>>(), py::arg("state"), py::arg("tokens"),
           py::arg("intervention") = nullptr)
      .def_readonly("state", &Row::state)
      .def_readonly("tokens", &Row::tokens)
      .def_readonly("intervention", &Row::intervention);

  py::class_<StepResult>(m, "StepResult")
      .def_readonly("token", &StepResult::token)
      .def_readonly("logits", &StepResult::logits)
      .def_readonly("captures", &StepResult::captures);

  py::class_<DecoderHandle>(m, "Decoder")
      .def(py::init<const CheckpointHandle&, int, const std::string&>(), py::arg("checkpoint"), py::kw_only(), py::arg("threads") = 1,
           py::arg("numerics") = "official")
      .def_readonly("checkpoint", &DecoderHandle::checkpoint)
      .def_property_readonly("threads", [](const DecoderHandle& d) { return d.core.threads(); })
      .def_property_readonly("numerics", [](const DecoderHandle& d) { return d.core.numerics() == Numerics::official ? "official" : "fp32"; })
      .def("new_state", [](const DecoderHandle& d) { return std::make_shared<State>(d.core.new_state()); })
      .def(
          "restore",
          [](const DecoderHandle& d, const py::bytes& data) {
            auto state = std::make_shared<State>(d.core.new_state());
            state->restore(data);
            return state;
          },
          py::arg("data"))
      .def("step", &step, py::arg("rows"));
}
