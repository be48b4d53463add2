#include "checkpoint/text.h"

#include <string>

#include "check.h"

TEST(control_characters_are_escaped) {
  CHECK_EQ(kernels::printable("a\nb\x7f\u00e9"), "a\\x0ab\\x7f\u00e9");
  CHECK_EQ(kernels::quoted("x"), "\"x\"");
}

TEST(long_text_is_cut_at_a_character) {
  CHECK_EQ(kernels::printable(std::string(200, 'a')).size(), 200u);
  const std::string text = std::string(199, 'a') + "\u20ac";  // three bytes that cross the limit
  CHECK_EQ(kernels::printable(text), std::string(199, 'a') + "...");
}

TEST(shapes_and_numbers_are_short) {
  CHECK_EQ(kernels::shape_text({4096, 1024}), "[4096, 1024]");
  CHECK_EQ(kernels::shape_text({}), "[]");
  CHECK_EQ(kernels::number_text(0.1), "0.1");
  CHECK_EQ(kernels::number_text(1e-30), "1e-30");
}
