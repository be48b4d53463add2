// The header of one safetensors file: u64 little-endian length, JSON, then the payload.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kernels {

// A dtype of the format. Types below a byte exist, hence bits.
struct StorageType {
  const char* tag;
  int bits;
};

// nullptr for a tag the format does not have.
const StorageType* find_storage_type(std::string_view tag);

struct HeaderEntry {
  std::string name;
  const StorageType* type;
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;  // bytes [begin, end) of the file
};

struct ShardHeader {
  std::uint64_t bytes;               // length field and JSON; the payload starts here
  std::vector<HeaderEntry> entries;  // in payload order
};

// Checks the header of a file of `length` bytes and every extent in it; reads no payload. On return the entries tile the payload:
// each has product(shape) * size bytes, none overlap, nothing lies between or behind them. Throws CheckpointError otherwise.
ShardHeader read_header(const std::uint8_t* data, std::uint64_t length, const std::string& file);

}  // namespace kernels
