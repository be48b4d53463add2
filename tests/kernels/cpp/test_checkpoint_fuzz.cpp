// Damaged input in large numbers: every reader must end in success or a CheckpointError, and never in a sanitizer report. The
// sequence is fixed, so a failure repeats.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/json.h"
#include "tiny.h"

namespace {

class Random {  // SplitMix64
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }

 private:
  std::uint64_t state_;
};

// One to four of: flip a bit, set a byte, cut, erase or repeat a piece, replace a digit, insert what parsers mistake.
std::string mutate(std::string text, Random& random) {
  constexpr const char* kInsertions[] = {"\"",   "{",   "}", "[", "]", ",", ":", "\\u", "\\", "-", "e9", "99999999999999999999",
                                         "\xff", "null"};
  for (std::size_t n = 1 + random.below(4); n > 0; --n) {
    if (text.empty()) return text;
    const std::size_t at = random.below(text.size()), length = 1 + random.below(std::min<std::size_t>(text.size() - at, 16));
    switch (random.below(7)) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << random.below(8))); break;
      case 1: text[at] = static_cast<char>(random.next()); break;
      case 2: text.resize(at); break;
      case 3: text.erase(at, length); break;
      case 4: text.insert(at, text.substr(at, length)); break;
      case 5: {
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) text[digit] = static_cast<char>('0' + random.below(10));
        break;
      }
      default: text.insert(at, kInsertions[random.below(std::size(kInsertions))]);
    }
  }
  return text;
}

// Runs `read` on `seed`, which it must accept, and on `rounds` mutations of it. Returns how many of those it accepted; more than
// half must be refused, or the mutations miss their target.
int fuzz(const std::string& seed, int rounds, std::uint64_t random_seed, const std::function<void(const std::string&)>& read) {
  Random random(random_seed);
  int accepted = 0;
  read(seed);
  for (int i = 0; i < rounds; ++i) {
    const std::string text = mutate(seed, random);
    try {
      read(text);
      ++accepted;
    } catch (const kernels::CheckpointError& error) {
      CHECK_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  CHECK(accepted < rounds / 2);
  return accepted;
}

// From a heap block of the exact size, so that the sanitizer sees any read beyond it.
kernels::ShardHeader read_exactly(const std::string& bytes) {
  const std::unique_ptr<std::uint8_t[]> copy(new std::uint8_t[bytes.size()]);
  bytes.copy(reinterpret_cast<char*>(copy.get()), bytes.size());
  return kernels::read_header(copy.get(), bytes.size(), "shard");
}

}  // namespace

TEST(json_texts) {
  const std::string seed =
      R"({"a": [1, -2.5e-3, true, null, {"": "\u00e9\ud83d\ude00\n"}], "π": 9223372036854775807, "b": {"c": []}})";
  const int accepted = fuzz(seed, 60'000, 1, [](const std::string& text) {
    const std::unique_ptr<char[]> copy(new char[text.size()]);
    text.copy(copy.get(), text.size());
    kernels::json::parse({copy.get(), text.size()}, "text");
  });
  CHECK(accepted > 1000);
}

TEST(configurations) {
  const int accepted =
      fuzz(tiny::text(tiny::config()), 10'000, 2, [](const std::string& text) { kernels::Config::parse(text, "config.json"); });
  CHECK(accepted > 100);
}

// What is accepted must lie within the file and tile it.
TEST(shard_headers) {
  const std::string seed = tiny::shard({{"a", "F32", {2, 3}}, {"b.weight", "BF16", {7}}, {"c", "I8", {4, 1}}, {"d", "F4", {2}}});
  const int accepted = fuzz(seed, 40'000, 3, [](const std::string& bytes) {
    const kernels::ShardHeader header = read_exactly(bytes);
    std::uint64_t end = header.bytes;
    for (const kernels::HeaderEntry& entry : header.entries) {
      CHECK_EQ(entry.begin, end);
      CHECK(entry.end >= entry.begin);
      end = entry.end;
    }
    CHECK_EQ(end, bytes.size());
  });
  CHECK(accepted > 500);
}

// Whole directories with one file damaged. Every byte of an accepted tensor is read.
TEST(directories) {
  const tiny::Directory directory;
  const std::vector<tiny::Stored> tensors = tiny::tensors(tiny::parsed(), "I8");
  std::map<std::string, std::string> weight_map;
  for (const tiny::Stored& tensor : tensors) weight_map[tensor.name] = "\"s.safetensors\"";
  const std::map<std::string, std::string> files = {
      {"config.json", tiny::text(tiny::config())},
      {"model.safetensors.index.json", R"({"weight_map": )" + tiny::text(weight_map) + "}"},
      {"s.safetensors", tiny::shard(tensors)},
  };
  for (const auto& [name, bytes] : files) directory.write(name, bytes);
  for (const auto& [name, bytes] : files) {
    // Payload is not checked, so only a shard's header is worth damaging.
    const std::size_t head = name == "s.safetensors" ? read_exactly(bytes).bytes : bytes.size();
    fuzz(bytes.substr(0, head), 300, 4, [&, tail = bytes.substr(head), file = name](const std::string& damaged) {
      directory.write(file, damaged + tail);
      const auto checkpoint = kernels::Checkpoint::open(directory.path());
      std::uint64_t sum = 0;
      for (const tiny::Stored& tensor : tensors)
        if (const kernels::Tensor* found = checkpoint->find(tensor.name))
          for (std::uint64_t i = 0; i < found->bytes; ++i) sum += found->data[i];
      CHECK_EQ(sum, 0u);
    });
    directory.write(name, bytes);
  }
}
