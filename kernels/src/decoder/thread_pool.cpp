#include "decoder/thread_pool.h"

#include <algorithm>
#include <bit>
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

constexpr int kPlaces = 62;                               // of parts, bits of work_: more threads than that have nothing to do
constexpr std::uint64_t kStop = std::uint64_t{1} << 63;   // no part, but a word that wakes
constexpr int kPartsPerThread = 2;
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

ThreadPool::ThreadPool(int threads)
    : places_(kPartsPerThread * std::int64_t{threads} <= kPlaces ? kPartsPerThread : 1),
      errors_(threads < 1 ? 0 : std::min<std::size_t>(static_cast<std::size_t>(threads) * places_, kPlaces)) {
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
  work_ |= kStop;
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// Takes a part and does it, one at this thread's own places first; false when none is left to take.
bool ThreadPool::do_next(int thread) noexcept {
  const int first = places_ * thread;
  const std::uint64_t preferred = first < kPlaces ? ((std::uint64_t{1} << places_) - 1) << first : 0;
  std::uint64_t work = work_.load(std::memory_order_acquire), taken;
  do {
    const std::uint64_t left = work & ~kStop, own = left & preferred;
    if (left == 0) return false;
    taken = own != 0 ? std::uint64_t{1} << std::countr_zero(own) : std::bit_floor(left);  // what others come to last
  } while (!work_.compare_exchange_weak(work, work & ~taken, std::memory_order_acq_rel, std::memory_order_acquire));
  const std::int64_t part = std::countr_zero(taken) / spread_, blocks = (count_ + grain_ - 1) / grain_;
  const std::int64_t begin = blocks * part / parts_ * grain_, end = std::min(count_, blocks * (part + 1) / parts_ * grain_);
  try {
    body_.call(body_.object, thread, begin, end);
  } catch (...) {
    errors_[static_cast<std::size_t>(part)] = std::current_exception();
  }
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_all();
  return true;
}

void ThreadPool::run(std::int64_t count, std::int64_t grain, Part body) {
  if (count <= 0) return;
  if (workers_.empty() || count <= grain) return body.call(body.object, 0, 0, count);
  count_ = count;
  grain_ = grain;
  body_ = body;
  parts_ = std::min<std::int64_t>({(count + grain - 1) / grain, static_cast<std::int64_t>(threads()) * places_, kPlaces});
  spread_ = parts_ <= threads() ? places_ : 1;  // one for each thread, then, at its first place
  std::uint64_t places = 0;
  for (std::int64_t part = 0; part < parts_; ++part) places |= std::uint64_t{1} << (part * spread_);
  unfinished_.store(parts_, std::memory_order_relaxed);
  work_.store(places, std::memory_order_release);
  work_.notify_all();
  while (do_next(0)) {
  }
  for (int i = 0;; ++i) {
    const std::int64_t left = unfinished_.load(std::memory_order_acquire);
    if (left == 0) break;
    if (i < kSpins) relax();
    else unfinished_.wait(left, std::memory_order_acquire);
  }
  // only now, when no thread looks at the caller's data any more
  std::exception_ptr first;
  for (std::int64_t part = 0; part < parts_; ++part)
    if (std::exception_ptr taken = std::exchange(errors_[static_cast<std::size_t>(part)], nullptr); taken && !first) first = taken;
  if (first) std::rethrow_exception(first);
}

void ThreadPool::work(int thread) {
  const FloatEnvironment environment;
  for (;;) {
    while (do_next(thread)) {
    }
    std::uint64_t seen = work_.load(std::memory_order_acquire);
    for (int i = 0; seen == 0; ++i) {
      if (i < kSpins) relax();
      else work_.wait(seen, std::memory_order_acquire);
      seen = work_.load(std::memory_order_acquire);
    }
    if ((seen & kStop) != 0) return;
  }
}

}  // namespace kernels
