// Reads weights into the page cache while other weights are computed with: a thread of its own asks the kernel for what the step is about to
// touch. It changes when bytes arrive, never which.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "ops/matrix.h"

namespace kernels {

class ReadAhead {
 public:
  explicit ReadAhead(std::shared_ptr<const Checkpoint> checkpoint) : checkpoint_(std::move(checkpoint)) {}
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Matrices in the order in which they will be read. Small ones are left to the kernel's own read-ahead: asking would cost more. The thread
  // starts with the first large one; where the system gives none, weights are read when they are touched.
  void expect(const Matrix& matrix);

 private:
  struct Range {
    const std::uint8_t* data;
    std::uint64_t bytes;
  };
  void work();

  std::shared_ptr<const Checkpoint> checkpoint_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Range> queue_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace kernels
