// Errors that the core raises on purpose; the bindings translate each to its Python class.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace kernels {

struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A checkpoint that cannot be used: where, which key, what was found, what is allowed. what() is one line.
struct CheckpointError : KernelError {
  CheckpointError(std::string file_, std::string key_, std::string found_, std::string allowed_)
      : KernelError(file_ + (key_.empty() ? "" : ": " + key_) + ": found " + found_ + ", allowed: " + allowed_),
        file(std::move(file_)), key(std::move(key_)), found(std::move(found_)), allowed(std::move(allowed_)) {}
  std::string file, key, found, allowed;
};

// A row that asks for what the decoder cannot do.
struct InterventionError : KernelError {
  using KernelError::KernelError;
};

// Bits required before or after a delta are not the bits found (study 2.4.2, 2.4.3).
struct StateMismatch : KernelError {
  using KernelError::KernelError;
};

}  // namespace kernels
