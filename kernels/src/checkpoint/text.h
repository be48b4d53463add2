// Text from files as it may stand in a one-line error message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kernels {

// `text` with control characters escaped and cut at a character after at most 200 bytes: a file may hold any name.
std::string printable(std::string_view text);
// printable() in double quotes.
std::string quoted(std::string_view text);
// The shortest text that reads back as `number`.
std::string number_text(double number);
// "[4096, 1024]"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace kernels
