#include "decoder/thread_pool.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "checkpoint/errors.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif !defined(__aarch64__)
#error "the floating-point environment of this processor is not known"
#endif

namespace kernels {
namespace {

constexpr int kSpins = 4000;  // some ten microseconds: longer than the gap between two parts of a layer, shorter than a time slice

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

#if defined(__x86_64__)
FloatEnvironment::FloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80u); }  // all exceptions masked, nearest, FTZ and DAZ off
FloatEnvironment::~FloatEnvironment() { _mm_setcsr(saved_); }
#else
FloatEnvironment::FloatEnvironment() {
  std::uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  saved_ = static_cast<unsigned>(control);
  asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));  // nearest, no flush-to-zero, no alternative half
}
FloatEnvironment::~FloatEnvironment() { asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{saved_})); }
#endif

ThreadPool::ThreadPool(int threads) : errors_(threads < 1 ? 0 : static_cast<std::size_t>(threads)) {
  if (threads < 1) throw KernelError("threads: found " + std::to_string(threads) + ", allowed: 1 or more");
  try {
    for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { work(t); });
  } catch (const std::system_error& error) {
    stop();
    throw KernelError("threads: found " + std::to_string(threads) + ", the system gives no more than " +
                      std::to_string(workers_.size() + 1) + ": " + error.what());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_ = true;
  ++generation_;
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::do_part(int thread) noexcept {
  const std::int64_t blocks = (count_ + grain_ - 1) / grain_, parts = threads();
  const std::int64_t begin = blocks * thread / parts * grain_, end = std::min(count_, blocks * (thread + 1) / parts * grain_);
  if (begin >= end) return;
  try {
    body_.call(body_.object, thread, begin, end);
  } catch (...) {
    errors_[static_cast<std::size_t>(thread)] = std::current_exception();
  }
}

void ThreadPool::run(std::int64_t count, std::int64_t grain, Part body) {
  if (count <= 0) return;
  if (workers_.empty() || count <= grain) return body.call(body.object, 0, 0, count);
  count_ = count;
  grain_ = grain;
  body_ = body;
  unfinished_ = static_cast<int>(workers_.size());
  ++generation_;
  generation_.notify_all();
  do_part(0);
  for (int i = 0; unfinished_.load(std::memory_order_acquire) != 0; ++i) {
    if (i < kSpins) { relax(); continue; }
    const int left = unfinished_.load(std::memory_order_acquire);
    if (left != 0) unfinished_.wait(left);
  }
  // only now, when no thread looks at the caller's data any more
  std::exception_ptr first;
  for (std::exception_ptr& error : errors_)
    if (std::exception_ptr taken = std::exchange(error, nullptr); taken && !first) first = taken;
  if (first) std::rethrow_exception(first);
}

void ThreadPool::work(int thread) {
  const FloatEnvironment environment;
  std::uint64_t seen = 0;
  for (;;) {
    for (int i = 0; generation_.load(std::memory_order_acquire) == seen; ++i) {
      if (i < kSpins) relax();
      else generation_.wait(seen);
    }
    seen = generation_.load(std::memory_order_acquire);
    if (stop_) return;
    do_part(thread);
    if (--unfinished_ == 0) unfinished_.notify_all();
  }
}

}  // namespace kernels
