#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "tiny.h"

using kernels::MappedFile;

TEST(bytes_are_the_files) {
  const tiny::Directory directory;
  directory.write("f", std::string("a\0b", 3));
  const MappedFile file(directory.path("f"), "a file");
  CHECK_EQ(file.size(), 3u);
  CHECK_EQ(file.text(), std::string("a\0b", 3));
  CHECK_EQ(file.path(), directory.path("f"));
}

TEST(an_empty_file_is_empty) {
  const tiny::Directory directory;
  directory.write("f", "");
  CHECK_EQ(MappedFile(directory.path("f"), "a file").size(), 0u);
}

TEST(a_replaced_file_keeps_its_old_bytes) {
  const tiny::Directory directory;
  directory.write("f", "old");
  const MappedFile file(directory.path("f"), "a file");
  directory.write("g", "new");
  std::filesystem::rename(directory.path("g"), directory.path("f"));
  CHECK_EQ(file.text(), "old");
}

TEST(what_is_no_regular_file_is_refused) {
  const tiny::Directory directory;
  const auto missing = ERROR_OF(MappedFile(directory.path("f"), "a shard"));
  CHECK_EQ(missing.file, directory.path("f"));
  CHECK_EQ(missing.found, "no such file");
  CHECK_EQ(missing.allowed, "a shard");
  CHECK_EQ(ERROR_OF(MappedFile(directory.path(), "a shard")).found, "a directory");
  CHECK_EQ(::mkfifo(directory.path("pipe").c_str(), 0600), 0);
  CHECK_EQ(ERROR_OF(MappedFile(directory.path("pipe"), "a shard")).found, "no regular file");
}

TEST(existence) {
  const tiny::Directory directory;
  CHECK(kernels::exists(directory.path()));
  CHECK(!kernels::exists(directory.path("f")));
}

namespace {

// Pages of a range that lie in the page cache.
std::size_t resident(const MappedFile& file) {
  std::vector<unsigned char> pages((file.size() + 4095) / 4096);
  if (::mincore(const_cast<std::uint8_t*>(file.data()), file.size(), pages.data()) != 0) return 0;
  return static_cast<std::size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1) != 0; }));
}

}  // namespace

TEST(read_ahead_brings_pages_into_the_cache) {
  const tiny::Directory directory;
  const std::size_t size = std::size_t{4} << 20;
  directory.write("f", std::string(size, 'x'));
  const int fd = ::open(directory.path("f").c_str(), O_RDONLY);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);  // a file system in memory keeps them, and then there is nothing to bring
  ::close(fd);
  const MappedFile file(directory.path("f"), "a file");
  if (resident(file) == 0) CHECK(!file.cached(5, size - 5));
  file.read_ahead(5, size - 5);
  for (int i = 0; i < 200 && resident(file) < size / 4096; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_EQ(resident(file), size / 4096);
  CHECK(file.cached(5, size - 5));
}

TEST(read_ahead_ignores_what_is_not_in_the_file) {
  const tiny::Directory directory;
  directory.write("f", "abc");
  const MappedFile file(directory.path("f"), "a file");
  file.read_ahead(2, 2);
  file.read_ahead(100, 1);
  file.read_ahead(0, 0);
  file.read_ahead(~std::uint64_t{0}, 2);
  CHECK(!file.cached(2, 2) && !file.cached(0, 0) && !file.cached(~std::uint64_t{0}, 2));
  CHECK_EQ(file.text(), "abc");
}
