#include "checkpoint/json.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

#include "checkpoint/errors.h"
#include "checkpoint/text.h"

namespace kernels::json {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(std::string_view text, const std::string& file, std::size_t base, const Limits& limits)
      : text_(text), file_(file), base_(base), limits_(limits) {}

  Value document() {
    if (text_.size() > limits_.bytes)
      throw CheckpointError(file_, "", std::to_string(text_.size()) + " bytes of JSON",
                            "at most " + std::to_string(limits_.bytes));
    Value result = value(0);
    skip_space();
    if (at_ != text_.size()) fail("the end of the text");
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& allowed) const { fail_at(at_, here(), allowed); }

  [[noreturn]] void fail_at(std::size_t at, const std::string& found, const std::string& allowed) const {
    throw CheckpointError(file_, "byte " + std::to_string(base_ + at), found, allowed);
  }

  std::string here() const {
    if (at_ >= text_.size()) return "the end of the text";
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c > 0x20 && c < 0x7F) return std::string("'") + static_cast<char>(c) + "'";
    char hex[3] = {};
    std::to_chars(hex, hex + 2, static_cast<int>(c), 16);
    return std::string("byte 0x") + (c < 16 ? "0" : "") + hex;
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < text_.size() && std::strchr(" \t\n\r", text_[at_]) != nullptr && text_[at_] != '\0') ++at_;
  }

  void expect(char c, const char* allowed) {
    if (at_ >= text_.size() || text_[at_] != c) fail(allowed);
    ++at_;
  }

  Value value(int depth) {
    skip_space();
    if (depth > limits_.depth) fail_at(at_, "deeper nesting", "at most " + std::to_string(limits_.depth) + " levels");
    if (++values_ > limits_.values) fail_at(at_, "more values", "at most " + std::to_string(limits_.values));
    switch (peek()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': return Value{string()};
      case 't': return literal("true", Value{true});
      case 'f': return literal("false", Value{false});
      case 'n': return literal("null", Value{nullptr});
      default: return number();
    }
  }

  Value literal(std::string_view word, Value result) {
    if (text_.substr(at_, word.size()) != word) fail("a JSON value");
    at_ += word.size();
    return result;
  }

  Value object(int depth) {
    Object members;
    ++at_;
    skip_space();
    if (peek() == '}') {
      ++at_;
      return Value{std::move(members)};
    }
    while (true) {
      skip_space();
      const std::size_t offset = at_;
      if (peek() != '"') fail("a key in double quotes");
      std::string key = string();
      skip_space();
      expect(':', "':' after a key");
      members.push_back(Member{std::move(key), base_ + offset, value(depth + 1)});
      skip_space();
      if (peek() == '}') break;
      expect(',', "',' or '}' after a member");
    }
    ++at_;
    // By key, equal keys in file order: lookups are binary and a duplicate stands beside its first.
    std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
      const int order = a.key.compare(b.key);
      return order != 0 ? order < 0 : a.offset < b.offset;
    });
    const auto twin =
        std::adjacent_find(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.key == b.key; });
    if (twin != members.end())
      fail_at(std::next(twin)->offset - base_, "key " + quoted(twin->key) + " again", "each key once in an object");
    return Value{std::move(members)};
  }

  Value array(int depth) {
    Array items;
    ++at_;
    skip_space();
    if (peek() == ']') {
      ++at_;
      return Value{std::move(items)};
    }
    while (true) {
      items.push_back(value(depth + 1));
      skip_space();
      if (peek() == ']') break;
      expect(',', "',' or ']' after an item");
    }
    ++at_;
    return Value{std::move(items)};
  }

  std::string string() {
    std::string out;
    ++at_;
    while (true) {
      if (at_ >= text_.size()) fail("'\"' at the end of a string");
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') {
        ++at_;
        return out;
      }
      if (c < 0x20) fail("control characters escaped in a string");
      if (c == '\\') {
        ++at_;
        escape(out);
      } else if (c < 0x80) {
        out += static_cast<char>(c);
        ++at_;
      } else {
        utf8(out);
      }
    }
  }

  void escape(std::string& out) {
    const char c = peek();
    constexpr std::string_view kNames = "\"\\/bfnrt", kBytes = "\"\\/\b\f\n\r\t";
    if (const auto i = kNames.find(c); i != std::string_view::npos) {
      out += kBytes[i];
      ++at_;
      return;
    }
    if (c != 'u') fail("one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
    const std::size_t start = at_ - 1;
    std::uint32_t code = hex4();
    if (code >= 0xD800 && code <= 0xDBFF && text_.substr(at_, 2) == "\\u") {
      ++at_;
      const std::uint32_t low = hex4();
      if (low >= 0xDC00 && low <= 0xDFFF) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code >= 0xD800 && code <= 0xDFFF) fail_at(start, "a lone surrogate", "surrogates in pairs, high then low");
    encode(out, code);
  }

  std::uint32_t hex4() {
    ++at_;  // the u
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const int nibble = digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (nibble < 0) fail("four hexadecimal digits after \\u");
      code = code * 16 + static_cast<std::uint32_t>(nibble);
    }
    return code;
  }

  static void encode(std::string& out, std::uint32_t code) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0 | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xE0 | (code >> 12));
      tail(6), tail(0);
    } else {
      out += static_cast<char>(0xF0 | (code >> 18));
      tail(12), tail(6), tail(0);
    }
  }

  // One multi-byte character: shortest form only, no surrogates, at most U+10FFFF.
  void utf8(std::string& out) {
    const auto lead = static_cast<unsigned char>(text_[at_]);
    const int tails = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    constexpr std::uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
    std::uint32_t code = lead & (0x3Fu >> tails);
    bool valid = lead >= 0xC0 && lead <= 0xF4;
    for (int i = 1; valid && i <= tails; ++i) {
      const std::size_t at = at_ + static_cast<std::size_t>(i);
      const auto c = static_cast<unsigned char>(at < text_.size() ? text_[at] : 0);
      valid = (c & 0xC0) == 0x80;
      code = (code << 6) | (c & 0x3F);
    }
    if (!valid || code < kSmallest[tails] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) fail("UTF-8 text");
    const auto length = static_cast<std::size_t>(tails) + 1;
    out.append(text_.substr(at_, length));
    at_ += length;
  }

  void digits() {
    if (!digit(peek())) fail("a digit");
    while (digit(peek())) ++at_;
  }

  Value number() {
    const std::size_t start = at_;
    const char* begin = text_.data() + at_;
    if (peek() == '-') ++at_;
    if (!digit(peek())) fail(at_ == start ? "a JSON value" : "a digit");
    if (peek() == '0') {
      ++at_;
      if (digit(peek())) fail("no digit after a leading zero");
    } else {
      digits();
    }
    bool integral = true;
    if (peek() == '.') {
      integral = false;
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      integral = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    const char* end = text_.data() + at_;
    if (std::int64_t exact = 0; integral && std::from_chars(begin, end, exact).ec == std::errc()) return Value{exact};
    double nearest = 0;  // from_chars: independent of the locale, correctly rounded
    if (std::from_chars(begin, end, nearest).ec != std::errc())
      fail_at(start, "number " + printable({begin, at_ - start}), "a number within the range of a double");
    return Value{nearest};
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t base_;
  const Limits& limits_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

Value parse(std::string_view text, const std::string& file, std::size_t base, const Limits& limits) {
  return Parser(text, file, base, limits).document();
}

const Value* find(const Object& object, std::string_view key) {
  const auto at = std::lower_bound(object.begin(), object.end(), key,
                                   [](const Member& member, std::string_view wanted) { return member.key < wanted; });
  return at != object.end() && at->key == key ? &at->value : nullptr;
}

std::string describe(const Value* value) {
  if (value == nullptr) return "nothing";
  if (const bool* b = value->boolean()) return *b ? "true" : "false";
  if (const auto* i = value->integer()) return "integer " + std::to_string(*i);
  if (const auto* d = std::get_if<double>(&value->data)) return "number " + number_text(*d);
  if (const auto* s = value->string()) return "string " + quoted(*s);
  if (const auto* a = value->array()) return "array of " + std::to_string(a->size());
  if (const auto* o = value->object()) return "object of " + std::to_string(o->size());
  return "null";
}

}  // namespace kernels::json
