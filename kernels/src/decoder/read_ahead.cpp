#include "decoder/read_ahead.h"

#include <system_error>

namespace kernels {
namespace {

constexpr std::uint64_t kLarge = 1 << 20;   // bytes from which on asking pays
constexpr std::size_t kLongest = 4096;      // queued ranges; a step that has outrun the thread drops the oldest, whose time has passed

}  // namespace

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  ready_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ReadAhead::expect(const Matrix& matrix) {
  const std::uint64_t bytes = matrix.data_bytes();
  if (bytes < kLarge || checkpoint_->cached(matrix.data, bytes)) return;  // waking a thread costs more than asking
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {
      return;
    }
  }
  queue_.push_back({matrix.data, bytes});
  if (queue_.size() > kLongest) queue_.pop_front();
  ready_.notify_one();
}

void ReadAhead::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    ready_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const Range next = queue_.front();
    queue_.pop_front();
    lock.unlock();
    checkpoint_->read_ahead(next.data, next.bytes);
    lock.lock();
  }
}

}  // namespace kernels
