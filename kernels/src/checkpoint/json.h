// A strict reader of JSON (RFC 8259) for config.json, the index and shard headers, none of which can be trusted.
//
// Stricter than the RFC where leniency would hide damage: duplicate keys, invalid UTF-8, lone surrogates and numbers outside the
// range of a double are refused. Every refusal is a CheckpointError whose key is "byte N", counted from the start of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kernels::json {

struct Value;
struct Member;
using Array = std::vector<Value>;
using Object = std::vector<Member>;  // sorted by key

struct Value {
  // An integer literal within int64 is held exactly as int64; any other number is the nearest double.
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, Array, Object> data;

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(data); }
  const bool* boolean() const { return std::get_if<bool>(&data); }
  const std::int64_t* integer() const { return std::get_if<std::int64_t>(&data); }
  const std::string* string() const { return std::get_if<std::string>(&data); }
  const Array* array() const { return std::get_if<Array>(&data); }
  const Object* object() const { return std::get_if<Object>(&data); }
};

struct Member {
  std::string key;
  std::size_t offset = 0;  // of the key in the file
  Value value;
};

// What a text may cost: a hostile file must not exhaust memory or stack. The official index holds 69,187 values in 6 MB.
struct Limits {
  std::size_t bytes = std::size_t{64} << 20;
  std::size_t values = 4'000'000;
  int depth = 32;
};

// Parses one JSON value with optional white space around it. `file` names the text in errors, `base` is its offset in that file.
Value parse(std::string_view text, const std::string& file, std::size_t base = 0, const Limits& limits = {});

// The member of this name, or nullptr.
const Value* find(const Object& object, std::string_view key);

// A value as an error shows it: `integer 3`, `string "x"`, `array of 2`, `nothing` for nullptr.
std::string describe(const Value* value);

}  // namespace kernels::json
