// Memory of one step, handed out in a line and taken back in reverse. Not for several threads: stages take what they need before they split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

namespace kernels {

class Arena {
 public:
  // Uninitialised room for `count` objects, on a cache line of its own.
  template <class T> T* take(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);
    return static_cast<T*>(bytes((count * sizeof(T) + kLine - 1) / kLine * kLine));
  }

  // Gives back, at its end, all that was taken since its beginning.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), chunk_(arena.chunk_), used_(arena.used_) {}
    ~Scope() { arena_.chunk_ = chunk_, arena_.used_ = used_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    std::size_t chunk_, used_;
  };

  // Frees what goes beyond `kept` bytes; nothing may be taken at the time.
  void trim(std::size_t kept) {
    std::size_t total = 0, n = 0;
    while (n < chunks_.size() && total + chunks_[n].size <= kept) total += chunks_[n++].size;
    chunks_.resize(n);
    chunk_ = used_ = 0;
  }

 private:
  static constexpr std::size_t kLine = 64, kSmallest = std::size_t{1} << 20;
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{kLine}); }
  };
  struct Chunk {
    std::unique_ptr<std::byte, Free> data;
    std::size_t size;
  };

  void* bytes(std::size_t count) {
    while (chunk_ < chunks_.size() && used_ + count > chunks_[chunk_].size) ++chunk_, used_ = 0;
    if (chunk_ == chunks_.size()) {
      const std::size_t size = count > kSmallest ? count : kSmallest;
      chunks_.push_back({std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(::operator new(size, std::align_val_t{kLine}))), size});
      used_ = 0;
    }
    void* out = chunks_[chunk_].data.get() + used_;
    used_ += count;
    return out;
  }

  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0, used_ = 0;  // of the chunk in use
};

// Activations [count, width], one row an item, in an arena.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Arena& arena, std::int64_t count, std::int64_t width) : width_(width), rows_(arena.take<float*>(static_cast<std::size_t>(count))) {
    float* data = arena.take<float>(static_cast<std::size_t>(count * width));
    for (std::int64_t i = 0; i < count; ++i) rows_[i] = data + i * width;
  }
  float* operator[](std::int64_t i) const { return rows_[i]; }
  float* const* rows() const { return rows_; }
  std::int64_t width() const { return width_; }

 private:
  std::int64_t width_ = 0;
  float** rows_ = nullptr;
};

}  // namespace kernels
