#include "bindings/bindings.h"

#include "checkpoint/errors.h"

namespace {
// Leaked on purpose: exception types live as long as the interpreter.
PyObject* kernel_error = nullptr;
PyObject* checkpoint_error = nullptr;
PyObject* intervention_error = nullptr;
PyObject* state_mismatch = nullptr;

PyObject* define(py::module_& m, const char* name, PyObject* base) {
  PyObject* type = PyErr_NewException((std::string("kernels.") + name).c_str(), base, nullptr);
  m.attr(name) = py::handle(type);
  return type;
}
}  // namespace

void init_errors(py::module_& m) {
  kernel_error = define(m, "KernelError", PyExc_Exception);
  checkpoint_error = define(m, "CheckpointError", kernel_error);
  intervention_error = define(m, "InterventionError", kernel_error);
  state_mismatch = define(m, "StateMismatch", kernel_error);
  py::register_local_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const kernels::CheckpointError& e) {
      const py::object error = py::reinterpret_borrow<py::object>(checkpoint_error)(e.what());
      error.attr("file") = e.file;
      error.attr("key") = e.key;
      error.attr("found") = e.found;
      error.attr("allowed") = e.allowed;
      PyErr_SetObject(checkpoint_error, error.ptr());
    } catch (const kernels::InterventionError& e) {
      PyErr_SetString(intervention_error, e.what());
    } catch (const kernels::StateMismatch& e) {
      PyErr_SetString(state_mismatch, e.what());
    } catch (const kernels::KernelError& e) {
      PyErr_SetString(kernel_error, e.what());
    }
  });
}
