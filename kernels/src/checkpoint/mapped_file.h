// A file mapped read-only for as long as the object lives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kernels {

// The mapping is shared: its pages are the page cache's own, so that all decoders of a host hold one copy of the weights, and the
// kernel may drop and re-read them at will. Advice stays at the kernel's default: an expert's matrix is a run of megabytes, which
// read-ahead serves well even though the experts themselves come in no order.
//
// A file that is truncated while it is mapped ends the process (SIGBUS) on the next read of the lost part: a checkpoint in use
// must not be written to in place. Replacing a file by rename is safe.
class MappedFile {
 public:
  // Throws CheckpointError when `path` is no readable regular file; `allowed` says what was wanted there.
  MappedFile(const std::string& path, const std::string& allowed);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  const std::uint8_t* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  // Whether the first, middle and last page of [offset, offset + bytes) are in the page cache; false where the file system can't say.
  bool cached(std::uint64_t offset, std::uint64_t bytes) const;
  // Asks for [offset, offset + bytes) to be read into the page cache; returns at once. Best effort: a file system that can't read ahead
  // reads when the bytes are touched.
  void read_ahead(std::uint64_t offset, std::uint64_t bytes) const;
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  bool inside(std::uint64_t offset, std::uint64_t bytes) const { return bytes > 0 && bytes <= size_ && offset <= size_ - bytes; }

  std::string path_;
  int file_ = -1;                       // open as long as the map
  const std::uint8_t* data_ = nullptr;  // nullptr for an empty file
  std::uint64_t size_ = 0;
};

// Whether something stands at `path`, readable or not.
bool exists(const std::string& path);

}  // namespace kernels
