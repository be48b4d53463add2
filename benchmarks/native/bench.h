// What the native benchmarks share: options, repeated timing, threads that start together, JSON on standard output.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace bench {

// --name value pairs; an unknown or missing one gives the fallback.
inline int option(int argc, char** argv, const std::string& name, int fallback) {
  for (int i = 1; i + 1 < argc; ++i)
    if (argv[i] == "--" + name) return std::atoi(argv[i + 1]);
  return fallback;
}

// Set, time is what this process computed, a thread's share of it: rough figures from a machine that does other things too.
inline bool cpu_clock = false;

inline double now(int threads = 1) {
  if (cpu_clock) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC / threads;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of each of `repetitions` runs of body, after one that is not counted.
inline std::vector<double> time_repeated(int repetitions, int threads, const std::function<void()>& body) {
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions; ++i) {
    const double start = now(threads);
    body();
    if (i > 0) seconds.push_back(now(threads) - start);
  }
  return seconds;
}

// Calls body(thread) on `threads` threads that start together; returns when all are done.
inline void run_together(int threads, const std::function<void(int)>& body) {
  std::atomic<int> waiting{threads};
  const auto meet = [&](int thread) {
    waiting.fetch_sub(1);
    while (waiting.load() > 0) std::this_thread::yield();
    body(thread);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(meet, t);
  meet(0);
  for (std::thread& other : others) other.join();
}

// Prints `amount` / seconds for each sample as a JSON array.
inline void print_rates(double amount, const std::vector<double>& seconds) {
  std::printf("[");
  for (std::size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.6g", i ? ", " : "", amount / seconds[i]);
  std::printf("]");
}

}  // namespace bench
