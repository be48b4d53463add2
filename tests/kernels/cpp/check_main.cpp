#include <cstdio>
#include <cstring>
#include <exception>

#include "check.h"

namespace check {

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

}  // namespace check

int main(int argc, char** argv) {
  int ran = 0, failed = 0;
  for (const check::Case& test : check::cases()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    ++ran;
    try {
      test.body();
    } catch (const std::exception& error) {
      ++failed;
      std::printf("FAILED %s\n  %s\n", test.name, error.what());
    }
  }
  std::printf("%s: %d tests, %d failed\n", argv[0], ran, failed);
  // A filter that matches nothing, or a program without tests, must not look like success.
  return ran > 0 && failed == 0 ? 0 : 1;
}
