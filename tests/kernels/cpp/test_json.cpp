#include "checkpoint/json.h"

#include <cmath>
#include <limits>
#include <string>

#include "check.h"

namespace json = kernels::json;
using namespace std::string_literals;

namespace {

json::Value parse(const std::string& text) { return json::parse(text, "f.json"); }

// "byte N|found|allowed" of the refusal of `text`.
std::string refusal(const std::string& text) {
  const auto error = ERROR_OF(parse(text));
  CHECK_EQ(error.file, "f.json");
  return error.key + "|" + error.found + "|" + error.allowed;
}

std::string string_of(const std::string& text) {
  const json::Value value = parse(text);
  CHECK(value.string() != nullptr);
  return *value.string();
}

}  // namespace

TEST(literals) {
  CHECK(parse(" null ").is_null());
  CHECK_EQ(*parse("true").boolean(), true);
  CHECK_EQ(*parse("\t\r\nfalse").boolean(), false);
}

TEST(integers_are_exact_over_int64) {
  CHECK_EQ(*parse("9223372036854775807").integer(), std::numeric_limits<std::int64_t>::max());
  CHECK_EQ(*parse("-9223372036854775808").integer(), std::numeric_limits<std::int64_t>::min());
  CHECK_EQ(*parse("9007199254740993").integer(), 9007199254740993);  // 2^53 + 1, which no double holds
  CHECK_EQ(*parse("-0").integer(), 0);
}

TEST(integers_beyond_int64_become_numbers) {
  const json::Value value = parse("9223372036854775808");
  CHECK(value.integer() == nullptr);
  CHECK_EQ(std::get<double>(value.data), 9223372036854775808.0);
}

TEST(numbers_with_fraction_or_exponent_are_no_integers) {
  CHECK(parse("1.0").integer() == nullptr);
  CHECK_EQ(std::get<double>(parse("1e3").data), 1000.0);
  CHECK_EQ(std::get<double>(parse("-1.5E-2").data), -0.015);
  CHECK_EQ(std::get<double>(parse("1e-06").data), 1e-6);
}

TEST(numbers_outside_a_double_are_refused) {
  CHECK_EQ(refusal("[1e999]"), "byte 1|number 1e999|a number within the range of a double");
  CHECK_EQ(refusal("1e-999"), "byte 0|number 1e-999|a number within the range of a double");
}

TEST(numbers_follow_the_grammar) {
  CHECK_EQ(refusal("01"), "byte 1|'1'|no digit after a leading zero");
  CHECK_EQ(refusal("-"), "byte 1|the end of the text|a digit");
  CHECK_EQ(refusal("1."), "byte 2|the end of the text|a digit");
  CHECK_EQ(refusal("1e+"), "byte 3|the end of the text|a digit");
  CHECK_EQ(refusal("+1"), "byte 0|'+'|a JSON value");
  CHECK_EQ(refusal(".5"), "byte 0|'.'|a JSON value");
  CHECK_EQ(refusal("NaN"), "byte 0|'N'|a JSON value");
  CHECK_EQ(refusal("-Infinity"), "byte 1|'I'|a digit");
  CHECK_EQ(refusal("0x10"), "byte 1|'x'|the end of the text");
}

TEST(objects_are_found_by_key) {
  const json::Value value = parse(R"({"b": 1, "a": [2, {"c": null}], "": 3})");
  const json::Object& object = *value.object();
  CHECK_EQ(object.size(), 3u);
  CHECK_EQ(*json::find(object, "b")->integer(), 1);
  CHECK_EQ(*json::find(object, "")->integer(), 3);
  CHECK_EQ(json::find(object, "a")->array()->size(), 2u);
  CHECK(json::find(object, "B") == nullptr);
  CHECK(json::find(object, "z") == nullptr);
}

TEST(empty_containers) {
  CHECK(parse("{ }").object()->empty());
  CHECK(parse("[\n]").array()->empty());
}

TEST(duplicate_keys_are_refused_at_the_second) {
  CHECK_EQ(refusal(R"({"a":1,"b":2,"a":1})"), "byte 13|key \"a\" again|each key once in an object");
  CHECK_EQ(refusal(R"({"k":{"\u0061":1,"a":2}})"), "byte 17|key \"a\" again|each key once in an object");
  CHECK_EQ(parse(R"({"a":{"a":1}})").object()->size(), 1u);
}

TEST(punctuation_is_required) {
  CHECK_EQ(refusal(""), "byte 0|the end of the text|a JSON value");
  CHECK_EQ(refusal("{"), "byte 1|the end of the text|a key in double quotes");
  CHECK_EQ(refusal("{a:1}"), "byte 1|'a'|a key in double quotes");
  CHECK_EQ(refusal(R"({"a" 1})"), "byte 5|'1'|':' after a key");
  CHECK_EQ(refusal(R"({"a":1 "b":2})"), "byte 7|'\"'|',' or '}' after a member");
  CHECK_EQ(refusal(R"({"a":1,})"), "byte 7|'}'|a key in double quotes");
  CHECK_EQ(refusal("[1 2]"), "byte 3|'2'|',' or ']' after an item");
  CHECK_EQ(refusal("[1,]"), "byte 3|']'|a JSON value");
  CHECK_EQ(refusal("[1]]"), "byte 3|']'|the end of the text");
  CHECK_EQ(refusal("tru"), "byte 0|'t'|a JSON value");
  CHECK_EQ(refusal("\xEF\xBB\xBF{}"), "byte 0|byte 0xef|a JSON value");
  CHECK_EQ(refusal("{}\0"s), "byte 2|byte 0x00|the end of the text");
  CHECK_EQ(refusal("\0{}"s), "byte 0|byte 0x00|a JSON value");
}

TEST(strings_unescape) {
  CHECK_EQ(string_of(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  CHECK_EQ(string_of(R"("\u0041\u00e9\u20AC\u0000")"), "A\u00e9\u20ac\0"s);
  CHECK_EQ(string_of(R"("\ud83d\ude00")"), "\U0001F600");
  CHECK_EQ(string_of(R"("\uD800\uDC00\uDBFF\uDFFF")"), "\U00010000\U0010FFFF");
}

TEST(lone_surrogates_are_refused) {
  CHECK_EQ(refusal(R"("\ud83d")"), "byte 1|a lone surrogate|surrogates in pairs, high then low");
  CHECK_EQ(refusal(R"("\ude00\ud83d")"), "byte 1|a lone surrogate|surrogates in pairs, high then low");
  CHECK_EQ(refusal(R"("\ud83d\u0041")"), "byte 1|a lone surrogate|surrogates in pairs, high then low");
}

TEST(bad_escapes_are_refused) {
  CHECK_EQ(refusal(R"("\x")"), R"(byte 2|'x'|one of \" \\ \/ \b \f \n \r \t \uXXXX)");
  CHECK_EQ(refusal(R"("\u12g4")"), "byte 5|'g'|four hexadecimal digits after \\u");
  CHECK_EQ(refusal("\"\\\0\""s), R"(byte 2|byte 0x00|one of \" \\ \/ \b \f \n \r \t \uXXXX)");
  CHECK_EQ(refusal("\"\\"), R"(byte 2|the end of the text|one of \" \\ \/ \b \f \n \r \t \uXXXX)");
}

TEST(control_characters_are_refused_in_strings) {
  CHECK_EQ(refusal("\"a\nb\""), "byte 2|byte 0x0a|control characters escaped in a string");
  CHECK_EQ(refusal("\"\0\""s), "byte 1|byte 0x00|control characters escaped in a string");
  CHECK_EQ(refusal("\"abc"), "byte 4|the end of the text|'\"' at the end of a string");
}

TEST(utf8_is_kept) {
  const std::string text = "\u007f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff";
  CHECK_EQ(string_of('"' + text + '"'), text);
}

TEST(invalid_utf8_is_refused) {
  const char* broken[] = {
      "\x80",              // continuation without a lead
      "\xC0\xAF",          // two bytes for '/'
      "\xC1\xBF",          // two bytes for U+007F
      "\xE0\x9F\xBF",      // three bytes for U+07FF
      "\xED\xA0\x80",      // a surrogate
      "\xF0\x8F\xBF\xBF",  // four bytes for U+FFFF
      "\xF4\x90\x80\x80",  // above U+10FFFF
      "\xF5\x80\x80\x80",  // no such lead
      "\xFF",
      "\xC3(",     // tail missing
      "\xE2\x82",  // ends within a character
      "\xF0\x9F\x98",
  };
  for (const char* bytes : broken) {
    const std::string found = refusal('"' + std::string(bytes) + '"');
    CHECK_EQ(found.substr(0, 7), "byte 1|");
    CHECK_EQ(found.substr(found.rfind('|')), "|UTF-8 text");
  }
  CHECK_EQ(refusal("\"\xE2\x82"), "byte 1|byte 0xe2|UTF-8 text");
}

TEST(depth_is_limited) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
  };
  CHECK(parse(nested(33)).array() != nullptr);
  CHECK_EQ(refusal(nested(34)), "byte 33|deeper nesting|at most 32 levels");
  CHECK_EQ(refusal(std::string(1'000'000, '[')), "byte 33|deeper nesting|at most 32 levels");
}

TEST(size_and_value_count_are_limited) {
  const json::Limits limits{8, 3, 4};
  CHECK_EQ(json::parse("[1,2]", "f", 0, limits).array()->size(), 2u);
  CHECK_EQ(ERROR_OF(json::parse("[1,2,3]", "f", 0, limits)).key, "byte 5");
  CHECK_EQ(ERROR_OF(json::parse("        1", "f", 0, limits)).found, "9 bytes of JSON");
}

TEST(offsets_count_from_the_base) {
  CHECK_EQ(ERROR_OF(json::parse("[1 2]", "f", 8)).key, "byte 11");
  CHECK_EQ(ERROR_OF(json::parse(R"({"a":1,"a":1})", "f", 8)).key, "byte 15");
}

TEST(values_are_described) {
  CHECK_EQ(json::describe(nullptr), "nothing");
  const auto described = [](const std::string& text) {
    const json::Value value = parse(text);
    return json::describe(&value);
  };
  CHECK_EQ(described("null"), "null");
  CHECK_EQ(described("true"), "true");
  CHECK_EQ(described("-7"), "integer -7");
  CHECK_EQ(described("1e-06"), "number 1e-06");
  CHECK_EQ(described(R"("a\nb")"), "string \"a\\x0ab\"");
  CHECK_EQ(described("[1,2]"), "array of 2");
  CHECK_EQ(described(R"({"a":1})"), "object of 1");
}
