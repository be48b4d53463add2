#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "checkpoint/errors.h"

namespace kernels {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  int release() { return std::exchange(fd, -1); }
};

// generic_category().message is strerror without its shared buffer.
std::string reason(int error) { return error == ENOENT ? "no such file" : std::generic_category().message(error); }

}  // namespace

MappedFile::MappedFile(const std::string& path, const std::string& allowed) : path_(path) {
  // O_NONBLOCK: a named pipe must be refused below, not waited for.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status{};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0) throw CheckpointError(path, "", reason(errno), allowed);
  if (!S_ISREG(status.st_mode))
    throw CheckpointError(path, "", S_ISDIR(status.st_mode) ? "a directory" : "no regular file", allowed);
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd, 0);
  if (address == MAP_FAILED)
    throw CheckpointError(path, "", "mmap of " + std::to_string(size_) + " bytes: " + reason(errno), "a file that can be mapped");
  data_ = static_cast<const std::uint8_t*>(address);
  file_ = file.release();
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::uint8_t*>(data_), size_);
  if (file_ >= 0) ::close(file_);
}

bool MappedFile::cached(std::uint64_t offset, std::uint64_t bytes) const {
  const auto present = [this](std::uint64_t at) {
    std::uint8_t byte;
    const iovec into{&byte, 1};
    return ::preadv2(file_, &into, 1, static_cast<off_t>(at), RWF_NOWAIT) == 1;
  };
  return inside(offset, bytes) && present(offset) && present(offset + bytes / 2) && present(offset + bytes - 1);
}

void MappedFile::read_ahead(std::uint64_t offset, std::uint64_t bytes) const {
  if (!inside(offset, bytes)) return;
  const std::uint64_t page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)), begin = offset / page * page;
  ::madvise(const_cast<std::uint8_t*>(data_) + begin, offset + bytes - begin, MADV_WILLNEED);
}

bool exists(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 || errno != ENOENT;
}

}  // namespace kernels
