#include "checkpoint/mapped_file.h"

#include <sys/stat.h>

#include <filesystem>

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
