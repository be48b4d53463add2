#include "checkpoint/safetensors.h"

#include <memory>
#include <string>

#include "tiny.h"

namespace {

// From a heap block of the exact size, so that the sanitizer sees any read beyond it.
kernels::ShardHeader read(const std::string& bytes) {
  const std::unique_ptr<std::uint8_t[]> copy(new std::uint8_t[bytes.size()]);
  bytes.copy(reinterpret_cast<char*>(copy.get()), bytes.size());
  return kernels::read_header(copy.get(), bytes.size(), "s.safetensors");
}

// "key|found|allowed" of the refusal of a shard with this header and as many bytes of payload.
std::string refusal(const std::string& json, std::uint64_t payload) {
  const auto error = ERROR_OF(read(tiny::shard(json, payload)));
  CHECK_EQ(error.file, "s.safetensors");
  return error.key + "|" + error.found + "|" + error.allowed;
}

std::string field(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

}  // namespace

TEST(entries_come_in_payload_order_with_file_offsets) {
  const std::string json = R"({"b":)" + field(R"("F32")", "[2,1]", "[0,8]") + R"(,"__metadata__":{"k":"v"},"a":)" +
                           field(R"("BF16")", "[3]", "[8,14]") + "}  ";
  const kernels::ShardHeader header = read(tiny::shard(json, 14));
  CHECK_EQ(header.bytes, 8 + json.size());
  CHECK_EQ(header.entries.size(), 2u);
  CHECK_EQ(header.entries[0].name, "b");
  CHECK_EQ(header.entries[0].type->tag, std::string("F32"));
  CHECK(header.entries[0].shape == std::vector<std::int64_t>({2, 1}));
  CHECK_EQ(header.entries[0].begin, header.bytes);
  CHECK_EQ(header.entries[1].name, "a");
  CHECK_EQ(header.entries[1].begin, header.bytes + 8);
  CHECK_EQ(header.entries[1].end, header.bytes + 14);
}

TEST(empty_tensors_scalars_and_empty_files_are_allowed) {
  CHECK_EQ(read(tiny::shard("{}", 0)).entries.size(), 0u);
  const std::string json = R"({"e":)" + field(R"("F32")", "[0,5]", "[4,4]") + R"(,"s":)" + field(R"("F32")", "[]", "[0,4]") + "}";
  CHECK_EQ(read(tiny::shard(json, 4)).entries.size(), 2u);
}

TEST(types_below_a_byte_count_in_bits) {
  CHECK_EQ(read(tiny::shard(R"({"a":)" + field(R"("F4")", "[6]", "[0,3]") + "}", 3)).entries.size(), 1u);
  CHECK_EQ(refusal(R"({"a":)" + field(R"("F4")", "[5]", "[0,2]") + "}", 2),
           "a|2 bytes in data_offsets [0, 2)|2 bytes for F4 [5]");
}

TEST(header_length_is_bounded_by_file_and_limit) {
  CHECK_EQ(ERROR_OF(read("1234567")).found, "a file of 7 bytes");
  CHECK_EQ(ERROR_OF(read("")).found, "a file of 0 bytes");
  CHECK_EQ(ERROR_OF(read(std::string(8, '\xff'))).key, "header length");
  CHECK_EQ(ERROR_OF(read(std::string(8, '\xff'))).found, "18446744073709551615 bytes");
  std::string bytes = tiny::shard("{}", 3);
  bytes[0] = 6;
  CHECK_EQ(ERROR_OF(read(bytes)).allowed, "at most 5 bytes in a file of 13");
}

TEST(header_is_a_json_object_from_its_first_byte) {
  CHECK_EQ(refusal("", 0), "byte 8|no '{'|a JSON object as header");
  CHECK_EQ(refusal(" {}", 0), "byte 8|no '{'|a JSON object as header");
  CHECK_EQ(refusal("[]", 0), "byte 8|no '{'|a JSON object as header");
  CHECK_EQ(refusal("{]", 0), "byte 9|']'|a key in double quotes");
  CHECK_EQ(refusal(std::string("{}\0", 3), 0), "byte 10|byte 0x00|the end of the text");
}

TEST(duplicate_tensors_are_refused) {
  const std::string one = R"("a":)" + field(R"("I8")", "[1]", "[0,1]");
  CHECK_EQ(ERROR_OF(read(tiny::shard("{" + one + "," + one + "}", 1))).found, "key \"a\" again");
}

TEST(metadata_holds_strings) {
  CHECK_EQ(refusal(R"({"__metadata__":[]})", 0), "__metadata__|array of 0|an object of strings");
  CHECK_EQ(refusal(R"({"__metadata__":{"a":1}})", 0), "__metadata__.a|integer 1|a string");
}

TEST(entry_fields_are_exact) {
  CHECK_EQ(refusal(R"({"a":1})", 0), "a|integer 1|an object with dtype, shape and data_offsets");
  CHECK_EQ(refusal(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":0}})", 4),
           "a|field \"x\"|dtype, shape and data_offsets only");
  CHECK_EQ(refusal(R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4), "a|dtype nothing|a dtype of the safetensors format");
  CHECK_EQ(refusal(R"({"a":)" + field(R"("f32")", "[]", "[0,4]") + "}", 4),
           "a|dtype string \"f32\"|a dtype of the safetensors format");
  CHECK_EQ(refusal(R"({"a":)" + field("3", "[]", "[0,4]") + "}", 4), "a|dtype integer 3|a dtype of the safetensors format");
}

TEST(shape_and_offsets_are_non_negative_integers) {
  const std::string allowed = "|an array of at most 8 non-negative integers";
  const auto shape = [](const std::string& text) { return refusal(R"({"a":)" + field(R"("F32")", text, "[0,4]") + "}", 4); };
  CHECK_EQ(shape("[-1]"), "a|shape with integer -1" + allowed);
  CHECK_EQ(shape("[1.0]"), "a|shape with number 1" + allowed);
  CHECK_EQ(shape("[18446744073709551616]"), "a|shape with number 18446744073709551616" + allowed);
  CHECK_EQ(shape("1"), "a|shape integer 1" + allowed);
  CHECK_EQ(shape("[1,1,1,1,1,1,1,1,1]"), "a|shape array of 9" + allowed);
  const auto offsets = [](const std::string& text) { return refusal(R"({"a":)" + field(R"("F32")", "[1]", text) + "}", 4); };
  CHECK_EQ(offsets("[0]"), "a|data_offsets [0]|two offsets [begin, end) with begin <= end");
  CHECK_EQ(offsets("[4,0]"), "a|data_offsets [4, 0]|two offsets [begin, end) with begin <= end");
  CHECK_EQ(offsets("[0,4,4]"), "a|data_offsets array of 3|an array of at most 2 non-negative integers");
  CHECK_EQ(offsets("[-4,0]"), "a|data_offsets with integer -4|an array of at most 2 non-negative integers");
}

TEST(shapes_that_overflow_are_refused) {
  const std::string big = "[4294967296,4294967296]";  // 2^64 elements, 0 in 64 bits
  CHECK_EQ(refusal(R"({"a":)" + field(R"("I8")", big, "[0,0]") + "}", 0),
           "a|shape [4294967296, 4294967296]|a tensor of less than 2^61 bytes");
  CHECK_EQ(refusal(R"({"a":)" + field(R"("I64")", "[9223372036854775807]", "[0,0]") + "}", 0),
           "a|shape [9223372036854775807]|a tensor of less than 2^61 bytes");
}

TEST(extent_must_be_what_shape_and_dtype_need) {
  CHECK_EQ(refusal(R"({"a":)" + field(R"("F32")", "[2]", "[0,4]") + "}", 4),
           "a|4 bytes in data_offsets [0, 4)|8 bytes for F32 [2]");
  CHECK_EQ(refusal(R"({"a":)" + field(R"("F32")", "[0]", "[0,4]") + "}", 4),
           "a|4 bytes in data_offsets [0, 4)|0 bytes for F32 [0]");
}

TEST(overlap_is_refused) {
  const std::string json = R"({"a":)" + field(R"("I8")", "[4]", "[0,4]") + R"(,"b":)" + field(R"("I8")", "[4]", "[3,7]") + "}";
  CHECK_EQ(refusal(json, 7), "b|data_offsets [3, 7), which overlaps a|extents that do not overlap");
  const std::string same = R"({"a":)" + field(R"("I8")", "[4]", "[0,4]") + R"(,"b":)" + field(R"("I8")", "[4]", "[0,4]") + "}";
  CHECK_EQ(refusal(same, 4), "b|data_offsets [0, 4), which overlaps a|extents that do not overlap");
}

TEST(gaps_and_trailing_bytes_are_refused) {
  CHECK_EQ(refusal(R"({"a":)" + field(R"("I8")", "[4]", "[1,5]") + "}", 5),
           "a|data_offsets [1, 5), which leaves bytes [0, 1) to no tensor|extents without gaps");
  const std::string json = R"({"a":)" + field(R"("I8")", "[4]", "[0,4]") + "}";
  CHECK_EQ(refusal(json, 5), "|a file of " + std::to_string(8 + json.size() + 5) + " bytes|the " +
                                 std::to_string(8 + json.size() + 4) + " bytes that its header describes");
}

TEST(truncation_is_refused_as_such) {
  const std::string json = R"({"a":)" + field(R"("I8")", "[4]", "[0,4]") + R"(,"b":)" + field(R"("I8")", "[4]", "[4,8]") + "}";
  CHECK_EQ(read(tiny::shard(json, 8)).entries.size(), 2u);
  for (std::uint64_t payload : {0, 4, 7}) CHECK(refusal(json, payload).find("(truncated)") != std::string::npos);
}

TEST(offsets_outside_the_payload_are_refused_by_name) {
  const std::string json =
      R"({"a":)" + field(R"("I8")", "[4]", "[100,104]") + R"(,"b":)" + field(R"("I8")", "[4]", "[4,8]") + "}";
  CHECK_EQ(refusal(json, 8), "a|data_offsets [100, 104)|offsets within the 8 payload bytes of the file");
  const std::string edge = R"({"a":)" + field(R"("I8")", "[4]", "[9223372036854775803,9223372036854775807]") + "}";
  CHECK_EQ(refusal(edge, 8),
           "a|data_offsets [9223372036854775803, 9223372036854775807)|offsets within the 8 payload bytes of the file");
}
