// What the binding files share. One init_x a domain; no arithmetic here.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <memory>
#include <string>
#include <vector>

namespace py = pybind11;

using FloatArray = py::array_t<float, py::array::c_style | py::array::forcecast>;

void init_errors(py::module_& m);
void init_checkpoint(py::module_& m);
void init_schemes(py::module_& m);
void init_intervention(py::module_& m);
void init_decoder(py::module_& m);

// A numpy array that owns `values`.
template <class T> py::array take_array(std::vector<T> values, std::vector<py::ssize_t> shape) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  T* data = owned->data();
  const py::capsule owner(owned.release(), [](void* p) { delete static_cast<std::vector<T>*>(p); });
  return py::array_t<T>(std::move(shape), data, owner);
}

// SHA-256 (hex) of a buffer, by hashlib.
std::string sha256_hex(const std::string& bytes);
