// Threads that split output elements, never a sum: how many there are cannot change a bit.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace kernels {

// The floating-point environment the arithmetic is defined in: nearest rounding, no flush-to-zero, no denormals-are-zero. Set for the
// guard's lifetime whatever a host program (a tensor library's flush-denormal switch, say) chose, and given back after.
class FloatEnvironment {
 public:
  FloatEnvironment();
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  unsigned saved_;
};

class ThreadPool {
 public:
  // Throws KernelError when threads < 1 or the system gives no more threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(thread, begin, end) on parts of [0, count), each part a multiple of `grain` but for the last; `thread` is who does it. A
  // thread prefers the parts that it had in other runs of so many, whose data its caches hold, as far as parts are one or two a thread; on a
  // busy host others do what a thread that was not let run has not begun. There are two parts a thread, from 32 threads on one, and 62 at
  // most. Returns when all are done; then the exception of the first part that has one is thrown again.
  template <class Body> void run(std::int64_t count, std::int64_t grain, const Body& body) {
    run(count, grain, Part{&body, [](const void* object, int thread, std::int64_t begin, std::int64_t end) {
                             (*static_cast<const Body*>(object))(thread, begin, end);
                           }});
  }

 private:
  // A body without the allocation that std::function makes of every larger one.
  struct Part {
    const void* object = nullptr;
    void (*call)(const void* object, int thread, std::int64_t begin, std::int64_t end) = nullptr;
  };
  void run(std::int64_t count, std::int64_t grain, Part body);
  void work(int thread);
  bool do_next(int thread) noexcept;
  void stop();

  std::vector<std::thread> workers_;
  // A bit for each place of a part that nobody has taken: one word, so that who takes a part takes it from the run whose fields it then
  // reads, and keeps that run from ending.
  std::atomic<std::uint64_t> work_{0};
  std::atomic<std::int64_t> unfinished_{0};  // parts
  const int places_;                         // that a thread prefers
  std::int64_t count_ = 0, grain_ = 1, parts_ = 0;
  int spread_ = 1;                           // places from a part to the next
  std::vector<std::exception_ptr> errors_;   // [parts]
  Part body_;
};

}  // namespace kernels
