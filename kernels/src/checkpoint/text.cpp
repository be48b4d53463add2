#include "checkpoint/text.h"

#include <charconv>
#include <cstddef>

namespace kernels {

std::string printable(std::string_view text) {
  constexpr std::size_t kLimit = 200;
  constexpr char kHex[] = "0123456789abcdef";
  std::size_t length = text.size();
  if (length > kLimit) {
    length = kLimit;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  }
  std::string out;
  for (std::size_t i = 0; i < length; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || c == 0x7F) {
      out += "\\x";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += text[i];
    }
  }
  if (length < text.size()) out += "...";
  return out;
}

std::string quoted(std::string_view text) { return '"' + printable(text) + '"'; }

std::string number_text(double number) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, number).ptr};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

}  // namespace kernels
