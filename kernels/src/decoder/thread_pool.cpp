#include "decoder/thread_pool.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <cfenv>
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
FloatEnvironment::FloatEnvironment() : saved_(static_cast<unsigned>(std::fegetround())) { std::fesetround(FE_TONEAREST); }
FloatEnvironment::~FloatEnvironment() { std::fesetround(static_cast<int>(saved_)); }
#endif

ThreadPool::ThreadPool(int threads) {
  for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { work(t); });
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  ++generation_;
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::do_part(int thread) {
  const std::int64_t blocks = (count_ + grain_ - 1) / grain_, parts = threads();
  const std::int64_t begin = blocks * thread / parts * grain_, end = std::min(count_, blocks * (thread + 1) / parts * grain_);
  if (begin < end) (*body_)(thread, begin, end);
}

void ThreadPool::run(std::int64_t count, std::int64_t grain, const std::function<void(int, std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  if (workers_.empty() || count <= grain) return body(0, 0, count);
  count_ = count;
  grain_ = grain;
  body_ = &body;
  unfinished_ = static_cast<int>(workers_.size());
  ++generation_;
  generation_.notify_all();
  do_part(0);
  for (int i = 0; unfinished_.load(std::memory_order_acquire) != 0; ++i) {
    if (i < kSpins) { relax(); continue; }
    const int left = unfinished_.load(std::memory_order_acquire);
    if (left != 0) unfinished_.wait(left);
  }
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
