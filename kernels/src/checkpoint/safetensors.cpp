#include "checkpoint/safetensors.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "checkpoint/errors.h"
#include "checkpoint/json.h"
#include "checkpoint/text.h"

namespace kernels {
namespace {

// All tags of the format, as mtp.* may use any; which of them the decoder reads is the layout's business.
constexpr StorageType kStorageTypes[] = {
    {"F32", 32},    {"BF16", 16},   {"F8_E4M3", 8},     {"F8_E8M0", 8},     {"I8", 8},   {"I32", 32},
    {"I64", 64},    {"BOOL", 8},    {"U8", 8},          {"I16", 16},        {"U16", 16}, {"F16", 16},
    {"U32", 32},    {"F64", 64},    {"U64", 64},        {"F8_E5M2", 8},     {"C64", 64}, {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
};

constexpr std::uint64_t kPrefix = 8;
constexpr std::uint64_t kMaxJson = std::uint64_t{64} << 20;

std::string range_text(std::uint64_t begin, std::uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

class HeaderReader {
 public:
  HeaderReader(const std::string& file, std::uint64_t start, std::uint64_t payload)
      : file_(file), start_(start), payload_(payload) {}

  // data_offsets count from the end of the header; the entry's from the start of the file.
  HeaderEntry entry(const json::Member& member) const {
    HeaderEntry result{member.key, nullptr, {}, 0, 0};
    const json::Object* fields = member.value.object();
    if (fields == nullptr) fail(member.key, json::describe(&member.value), "an object with dtype, shape and data_offsets");
    for (const json::Member& field : *fields)
      if (field.key != "dtype" && field.key != "shape" && field.key != "data_offsets")
        fail(member.key, "field " + quoted(field.key), "dtype, shape and data_offsets only");

    const json::Value* dtype = json::find(*fields, "dtype");
    const std::string* tag = dtype != nullptr ? dtype->string() : nullptr;
    if (tag != nullptr) result.type = find_storage_type(*tag);
    if (result.type == nullptr) fail(member.key, "dtype " + json::describe(dtype), "a dtype of the safetensors format");

    const json::Value* shape = json::find(*fields, "shape");
    result.shape = integers(member.key, "shape", shape, 8);
    const json::Value* offsets = json::find(*fields, "data_offsets");
    const std::vector<std::int64_t> ends = integers(member.key, "data_offsets", offsets, 2);
    if (ends.size() != 2 || ends[0] > ends[1])
      fail(member.key, "data_offsets " + shape_text(ends), "two offsets [begin, end) with begin <= end");

    const auto begin = static_cast<std::uint64_t>(ends[0]), end = static_cast<std::uint64_t>(ends[1]);
    std::uint64_t bits = static_cast<std::uint64_t>(result.type->bits);
    for (const std::int64_t extent : result.shape)
      if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(extent), &bits))
        fail(member.key, "shape " + shape_text(result.shape), "a tensor of less than 2^61 bytes");
    if (bits % 8 != 0 || bits / 8 != end - begin)
      fail(member.key, std::to_string(end - begin) + " bytes in data_offsets " + range_text(begin, end),
           std::to_string(bits / 8) + " bytes for " + result.type->tag + " " + shape_text(result.shape));
    result.begin = begin;
    result.end = end;
    return result;
  }

  // Sorts into payload order and checks that the entries tile the payload, then makes offsets absolute.
  void place(std::vector<HeaderEntry>& entries) const {
    std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t covered = 0;
    for (std::size_t i = 0; i < entries.size(); covered = entries[i++].end)
      if (entries[i].begin != covered) refuse_break(entries, i, covered);
    if (covered != payload_)
      throw CheckpointError(
          file_, "", "a file of " + std::to_string(start_ + payload_) + " bytes" + (covered > payload_ ? " (truncated)" : ""),
          "the " + std::to_string(start_ + covered) + " bytes that its header describes");
    for (HeaderEntry& entry : entries) entry.begin += start_, entry.end += start_;
  }

  void metadata(const json::Value& value) const {
    const json::Object* object = value.object();
    if (object == nullptr) fail("__metadata__", json::describe(&value), "an object of strings");
    for (const json::Member& member : *object)
      if (member.value.string() == nullptr) fail("__metadata__." + member.key, json::describe(&member.value), "a string");
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& found, const std::string& allowed) const {
    throw CheckpointError(file_, printable(name), found, allowed);
  }

  // Entry i does not start where the one before it ended. A tensor that left the file explains the hole it left behind, so it is
  // named before the hole.
  [[noreturn]] void refuse_break(const std::vector<HeaderEntry>& entries, std::size_t i, std::uint64_t covered) const {
    const auto extent = [](const HeaderEntry& entry) { return "data_offsets " + range_text(entry.begin, entry.end); };
    for (const HeaderEntry& entry : entries)
      if (entry.end > payload_)
        fail(entry.name, extent(entry), "offsets within the " + std::to_string(payload_) + " payload bytes of the file");
    if (entries[i].begin < covered)
      fail(entries[i].name, extent(entries[i]) + ", which overlaps " + printable(entries[i - 1].name),
           "extents that do not overlap");
    fail(entries[i].name, extent(entries[i]) + ", which leaves bytes " + range_text(covered, entries[i].begin) + " to no tensor",
         "extents without gaps");
  }

  std::vector<std::int64_t> integers(const std::string& name, const char* field, const json::Value* value,
                                     std::size_t most) const {
    const json::Array* items = value != nullptr ? value->array() : nullptr;
    const std::string allowed = "an array of at most " + std::to_string(most) + " non-negative integers";
    if (items == nullptr || items->size() > most) fail(name, field + (" " + json::describe(value)), allowed);
    std::vector<std::int64_t> result;
    for (const json::Value& item : *items) {
      const std::int64_t* number = item.integer();
      if (number == nullptr || *number < 0) fail(name, std::string(field) + " with " + json::describe(&item), allowed);
      result.push_back(*number);
    }
    return result;
  }

  const std::string& file_;
  std::uint64_t start_, payload_;
};

}  // namespace

const StorageType* find_storage_type(std::string_view tag) {
  const auto* at =
      std::find_if(std::begin(kStorageTypes), std::end(kStorageTypes), [&](const StorageType& type) { return tag == type.tag; });
  return at != std::end(kStorageTypes) ? at : nullptr;
}

ShardHeader read_header(const std::uint8_t* data, std::uint64_t length, const std::string& file) {
  if (length < kPrefix)
    throw CheckpointError(file, "", "a file of " + std::to_string(length) + " bytes",
                          "a safetensors file, at least 8 bytes of header length");
  std::uint64_t json_bytes = 0;
  for (int i = 0; i < 8; ++i) json_bytes |= static_cast<std::uint64_t>(data[i]) << (8 * i);
  const std::uint64_t most = std::min(length - kPrefix, kMaxJson);
  if (json_bytes > most)
    throw CheckpointError(file, "header length", std::to_string(json_bytes) + " bytes",
                          "at most " + std::to_string(most) + " bytes in a file of " + std::to_string(length));
  const std::string_view text(reinterpret_cast<const char*>(data) + kPrefix, json_bytes);
  // The format demands '{' here: a header that starts with white space has two readings of where it starts.
  if (text.empty() || text.front() != '{') throw CheckpointError(file, "byte 8", "no '{'", "a JSON object as header");
  const json::Value document = json::parse(text, file, kPrefix);

  ShardHeader header{kPrefix + json_bytes, {}};
  const HeaderReader reader(file, header.bytes, length - header.bytes);
  for (const json::Member& member : *document.object()) {
    if (member.key == "__metadata__") reader.metadata(member.value);
    else header.entries.push_back(reader.entry(member));
  }
  reader.place(header.entries);
  return header;
}

}  // namespace kernels
