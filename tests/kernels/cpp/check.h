// The little that our C++ tests need of a framework; none can be had where the package is built.
//
//   TEST(name) { CHECK(condition); CHECK_EQ(actual, expected); }
//
// check_main.cpp runs every TEST of the program, or those whose name contains the first argument. A failed check ends its test.
#pragma once

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/errors.h"

namespace check {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Case {
  const char* name;
  void (*body)();
};

std::vector<Case>& cases();

struct Register {
  Register(const char* name, void (*body)()) { cases().push_back({name, body}); }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& message) {
  throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + message);
}

template <class A, class B>
void equal(const A& actual, const B& expected, const char* text, const char* file, int line) {
  if (actual == expected) return;
  std::ostringstream message;
  message << text << " is " << actual << ", expected " << expected;
  fail(file, line, message.str());
}

// Runs `action`, which must throw a CheckpointError, and returns it.
inline kernels::CheckpointError error_of(const std::function<void()>& action, const char* text, const char* file, int line) {
  try {
    action();
  } catch (const kernels::CheckpointError& error) {
    return error;
  }
  fail(file, line, std::string("no CheckpointError from ") + text);
}

}  // namespace check

#define TEST(name)                                                  \
  static void test_##name();                                        \
  static const check::Register register_##name(#name, test_##name); \
  static void test_##name()

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) check::fail(__FILE__, __LINE__, #condition); \
  } while (false)

#define CHECK_EQ(actual, expected) check::equal((actual), (expected), #actual, __FILE__, __LINE__)

#define ERROR_OF(...) check::error_of([&] { __VA_ARGS__; }, #__VA_ARGS__, __FILE__, __LINE__)
