// Text from files as it may stand in a one-line error message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kernels {

// `text` with control characters escaped and what exceeds 200 bytes cut at a character: names come from files that may hold anything.
std::string printable(std::string_view text);
// printable() in double quotes.
std::string quoted(std::string_view text);
// "[4096, 1024]"
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace kernels
