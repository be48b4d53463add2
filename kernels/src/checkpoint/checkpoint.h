// A checkpoint directory in the official layout (reference section 2): mapped read-only, checked before anything is read.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "checkpoint/config.h"

namespace kernels {

enum class DType { F32, BF16, F8_E4M3, F8_E8M0, I8, I32, I64 };
const char* dtype_name(DType dtype);    // safetensors tag
int dtype_size(DType dtype);            // bytes

// A view of one stored tensor. I8 is two E2M1 nibbles a byte, low nibble first, so its last extent is half the logical one.
// data has no alignment promise beyond one byte: safetensors headers need not be padded.
struct Tensor {
  DType dtype = DType::F32;
  int rank = 0;                          // 1 or 2
  std::array<std::int64_t, 2> shape{};   // stored shape; shape[1] = 1 for rank 1
  const std::uint8_t* data = nullptr;    // into the map
  std::uint64_t bytes = 0;
};

struct Shard {
  std::string name;
  std::uint64_t length = 0;        // of the file
  std::uint64_t header_bytes = 0;  // length field and JSON; the payload starts here
};

class MappedFile;
struct ShardHeader;

class Checkpoint {
 public:
  // Maps and checks everything but payloads. Throws CheckpointError with the first fault.
  static std::shared_ptr<const Checkpoint> open(const std::string& directory);
  ~Checkpoint();

  const std::string& directory() const { return directory_; }
  const Config& config() const { return config_; }
  // A tensor that the layout requires; a missing one is a bug of the caller, as open() has checked the set.
  const Tensor& tensor(const std::string& name) const;
  const Tensor* find(const std::string& name) const;   // nullptr when absent

  std::int64_t tensor_count() const { return tensor_count_; }            // in the index, mtp.* included
  std::int64_t skipped_tensor_count() const { return skipped_count_; }   // mtp.*
  std::uint64_t total_bytes() const { return total_bytes_; }             // payload of all tensors
  const std::map<std::string, std::int64_t>& dtype_counts() const { return dtype_counts_; }
  const std::vector<Shard>& shards() const { return shards_; }           // sorted by name

  // Whether a range of a tensor's bytes is in the page cache, and having it read into it, as MappedFile has them.
  bool cached(const std::uint8_t* data, std::uint64_t bytes) const;
  void read_ahead(const std::uint8_t* data, std::uint64_t bytes) const;

  // The byte ranges that the identity covers, in order: (label, bytes). The bindings hash them (hashlib), so that no
  // SHA-256 of our own is needed: config.json, tokenizer.json when present, index, then each shard's header and length
  // (decimal). A hash over them must frame each part, e.g. with its label and size, as parts are of any length.
  std::vector<std::pair<std::string, std::string>> identity_parts() const;
  // The files read whole for content_digest(): name and mapped range.
  struct Range { std::string name; const std::uint8_t* data; std::uint64_t bytes; };
  std::vector<Range> content_ranges() const;

 private:
  const MappedFile* file_of(const std::uint8_t* data) const;  // nullptr for what is in none
  Checkpoint();
  const MappedFile& map(const std::string& name, const std::string& allowed);
  void add_shard(const MappedFile& file, const std::string& name, const ShardHeader& header);

  std::string directory_;
  Config config_;
  // With their names: config.json, tokenizer.json when present, the index when present, then shards_ in order.
  std::vector<std::pair<std::string, std::unique_ptr<MappedFile>>> files_;
  std::vector<Shard> shards_;
  std::unordered_map<std::string, Tensor> tensors_;
  std::map<std::string, std::int64_t> dtype_counts_;
  std::int64_t tensor_count_ = 0, skipped_count_ = 0;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace kernels
