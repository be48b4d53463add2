// A weight matrix where it lies in the map, and the number formats (reference section 3) as tables.
#pragma once

#include <cstdint>

namespace kernels {

enum class Format : std::uint8_t { F32, BF16, E4M3, E2M1 };

// bytes that so many weights take, without their scales
constexpr std::uint64_t bytes_of(Format format, std::uint64_t weights) {
  return format == Format::F32 ? 4 * weights : format == Format::BF16 ? 2 * weights : format == Format::E4M3 ? weights : weights / 2;
}

// W [rows, cols], row-major, as stored. y = W x.
struct Matrix {
  Format format = Format::F32;
  int rows = 0;                          // outputs
  int cols = 0;                          // inputs, a multiple of 16 (E2M1: of 32)
  const std::uint8_t* data = nullptr;    // [rows, cols] F32/BF16/E4M3, [rows, cols/2] E2M1 nibbles
  const std::uint8_t* scale = nullptr;   // E8M0: E4M3 [ceil(rows/128), ceil(cols/128)], E2M1 [rows, cols/32]; else null
  std::uint64_t data_bytes() const {     // without the scales
    return bytes_of(format, static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols));
  }
  bool quantised() const { return format == Format::E4M3 || format == Format::E2M1; }
};

extern const float kE4M3[256];  // code -> value; 0x7F and 0xFF are NaN
extern const float kE2M1[16];   // code -> value; bit 3 is the sign

}  // namespace kernels
