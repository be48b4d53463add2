#include "checkpoint/checkpoint.h"

#include <filesystem>
#include <string>

#include "tiny.h"

using kernels::Checkpoint;

namespace {

constexpr char kIndex[] = "model.safetensors.index.json";

// Tensors i with i % shards == s in shard s; `index` may differ from what is written, for damage.
struct Model {
  std::vector<tiny::Stored> tensors = tiny::tensors(tiny::parsed(), "F8_E4M3");
  int shards = 2;

  static std::string shard_name(int s) { return "part-" + std::to_string(s) + ".safetensors"; }
  int shard_of(const std::string& name) const {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].name == name) return static_cast<int>(i % static_cast<std::size_t>(shards));
    throw std::logic_error(name);
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const tiny::Stored& tensor : tensors) sum += tensor.bytes();
    return sum;
  }
  std::map<std::string, std::string> weight_map() const {
    std::map<std::string, std::string> map;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      map[tensors[i].name] = '"' + shard_name(static_cast<int>(i % static_cast<std::size_t>(shards))) + '"';
    return map;
  }
  std::string index(const std::string& metadata) const {
    return R"({"metadata": )" + metadata + R"(, "weight_map": )" + tiny::text(weight_map()) + "}";
  }
  void write(const tiny::Directory& directory) const {
    directory.write("config.json", tiny::text(tiny::config()));
    directory.write(kIndex, index(R"({"total_size": )" + std::to_string(bytes()) + "}"));
    for (int s = 0; s < shards; ++s) {
      std::vector<tiny::Stored> part;
      for (std::size_t i = static_cast<std::size_t>(s); i < tensors.size(); i += static_cast<std::size_t>(shards))
        part.push_back(tensors[i]);
      directory.write(shard_name(s), tiny::shard(part));
    }
  }
};

}  // namespace

TEST(a_sharded_directory_opens) {
  const tiny::Directory directory;
  const Model model;
  model.write(directory);
  directory.write("unrelated.safetensors", "no checkpoint reads this");
  const auto checkpoint = Checkpoint::open(directory.path());
  CHECK_EQ(checkpoint->directory(), directory.path());
  CHECK_EQ(checkpoint->config().hidden_size, 160);
  CHECK_EQ(checkpoint->tensor_count(), static_cast<std::int64_t>(model.tensors.size()));
  CHECK_EQ(checkpoint->skipped_tensor_count(), 1);
  CHECK_EQ(checkpoint->total_bytes(), model.bytes());
  CHECK_EQ(checkpoint->dtype_counts().at("F16"), 1);
  CHECK_EQ(checkpoint->dtype_counts().at("I64"), 1);
  CHECK_EQ(checkpoint->shards().size(), 2u);
  CHECK_EQ(checkpoint->shards()[1].name, "part-1.safetensors");
  CHECK_EQ(checkpoint->shards()[1].length, std::filesystem::file_size(directory.path("part-1.safetensors")));
  CHECK(checkpoint->find("mtp.0.anything") == nullptr);
  CHECK(checkpoint->find("layers.0.attn.wkv.bias") == nullptr);
}

TEST(a_tensor_is_a_view_of_its_bytes) {
  const tiny::Directory directory;
  const Model model;
  model.write(directory);
  const auto checkpoint = Checkpoint::open(directory.path());
  const kernels::Tensor& tensor = checkpoint->tensor("layers.0.attn.wkv.weight");
  CHECK(tensor.dtype == kernels::DType::F8_E4M3);
  CHECK_EQ(kernels::dtype_name(tensor.dtype), std::string("F8_E4M3"));
  CHECK_EQ(kernels::dtype_size(tensor.dtype), 1);
  CHECK_EQ(tensor.rank, 2);
  CHECK_EQ(tensor.shape[0], 48);
  CHECK_EQ(tensor.shape[1], 160);
  CHECK_EQ(tensor.bytes, 48u * 160u);
  const kernels::Tensor& norm = checkpoint->tensor("norm.weight");
  CHECK_EQ(norm.rank, 1);
  CHECK_EQ(norm.shape[0], 160);
  CHECK_EQ(norm.shape[1], 1);
  bool inside = false;
  for (const Checkpoint::Range& range : checkpoint->content_ranges())
    inside = inside || (tensor.data >= range.data && tensor.data + tensor.bytes <= range.data + range.bytes);
  CHECK(inside);
}

TEST(the_embedded_checkpoint_opens) {
  const auto checkpoint = Checkpoint::open("kernels/checkpoints/mote");
  std::int64_t tagged = 0;
  for (const auto& [tag, count] : checkpoint->dtype_counts()) tagged += count;
  CHECK_EQ(checkpoint->tensor_count(), tagged);
  std::uint64_t payload = 0;
  for (const kernels::Shard& shard : checkpoint->shards()) payload += shard.length - shard.header_bytes;
  CHECK_EQ(checkpoint->total_bytes(), payload);
}

TEST(a_single_file_needs_no_index) {
  const tiny::Directory directory;
  const Model model;
  directory.write("config.json", tiny::text(tiny::config()));
  directory.write("model.safetensors", tiny::shard(model.tensors));
  const auto checkpoint = Checkpoint::open(directory.path());
  CHECK_EQ(checkpoint->total_bytes(), model.bytes());
  CHECK_EQ(checkpoint->shards().size(), 1u);
  Model damaged;
  damaged.tensors[0].name = "mtp.embed";
  directory.write("model.safetensors", tiny::shard(damaged.tensors));
  const auto error = ERROR_OF(Checkpoint::open(directory.path()));
  CHECK_EQ(error.file, directory.path("model.safetensors"));
  CHECK_EQ(error.key, "embed.weight");
}

TEST(an_index_wins_over_a_single_file) {
  const tiny::Directory directory;
  Model().write(directory);
  directory.write("model.safetensors", "left over");
  CHECK_EQ(Checkpoint::open(directory.path())->shards().size(), 2u);
}

TEST(metadata_of_the_index_may_be_absent) {
  const tiny::Directory directory;
  const Model model;
  model.write(directory);
  for (const char* metadata : {"null", "{}", R"({"total_parameters": 1})"}) {
    directory.write(kIndex, model.index(metadata));
    CHECK_EQ(Checkpoint::open(directory.path())->total_bytes(), model.bytes());
  }
  directory.write(kIndex, R"({"weight_map": )" + tiny::text(model.weight_map()) + "}");
  CHECK_EQ(Checkpoint::open(directory.path())->total_bytes(), model.bytes());
}

TEST(total_size_must_be_the_sum) {
  const tiny::Directory directory;
  const Model model;
  model.write(directory);
  for (const char* size : {"1", "-1", "\"1\"", "1.5"}) {
    directory.write(kIndex, model.index(std::string(R"({"total_size": )") + size + "}"));
    const auto error = ERROR_OF(Checkpoint::open(directory.path()));
    CHECK_EQ(error.file, directory.path(kIndex));
    CHECK_EQ(error.key, "metadata.total_size");
    CHECK_EQ(error.allowed, std::to_string(model.bytes()) + ", the payload bytes of all tensors");
  }
}

TEST(index_and_shards_must_agree) {
  const tiny::Directory directory;
  const Model model;
  model.write(directory);
  const auto refused = [&](const std::string& tensor, const std::string& shard) {
    std::map<std::string, std::string> map = model.weight_map();
    if (shard.empty()) map.erase(tensor);
    else map[tensor] = shard;
    directory.write(kIndex, R"({"weight_map": )" + tiny::text(map) + "}");
    return ERROR_OF(Checkpoint::open(directory.path()));
  };
  CHECK_EQ(model.shard_of("norm.weight"), 0);
  const auto wrong = refused("norm.weight", "\"part-1.safetensors\"");
  CHECK_EQ(wrong.key, "weight_map.norm.weight");
  CHECK_EQ(wrong.found, "\"part-1.safetensors\"");
  CHECK_EQ(wrong.allowed, "\"part-0.safetensors\", which holds it");
  const auto unlisted = refused("norm.weight", "");
  CHECK_EQ(unlisted.file, directory.path("part-0.safetensors"));
  CHECK_EQ(unlisted.key, "norm.weight");
  const auto absent = refused("mtp.1.ghost", "\"part-0.safetensors\"");
  CHECK_EQ(absent.found, "\"part-0.safetensors\", which does not hold it");
  CHECK_EQ(refused("norm.weight", "\"part-2.safetensors\"").key, "weight_map.norm.weight");
  CHECK_EQ(refused("mtp.1.ghost", "\"part-2.safetensors\"").file, directory.path("part-2.safetensors"));
}

TEST(shard_names_stay_in_the_directory) {
  const tiny::Directory directory;
  const Model model;
  model.write(directory);
  for (const char* name : {R"("../part-0.safetensors")", R"("/etc/x.safetensors")", R"("part-0.bin")", R"(".safetensors")",
                           R"("a\u0000.safetensors")", R"("")", "1", "null"}) {
    std::map<std::string, std::string> map = model.weight_map();
    map["norm.weight"] = name;
    directory.write(kIndex, R"({"weight_map": )" + tiny::text(map) + "}");
    const auto error = ERROR_OF(Checkpoint::open(directory.path()));
    CHECK_EQ(error.key, "weight_map.norm.weight");
    CHECK_EQ(error.allowed, "the name of a .safetensors file in this directory");
  }
}

TEST(the_index_needs_a_weight_map) {
  const tiny::Directory directory;
  Model().write(directory);
  for (const char* index : {"{}", R"({"weight_map": {}})", R"({"weight_map": []})"}) {
    directory.write(kIndex, index);
    CHECK_EQ(ERROR_OF(Checkpoint::open(directory.path())).key, "weight_map");
  }
  directory.write(kIndex, "[]");
  CHECK_EQ(ERROR_OF(Checkpoint::open(directory.path())).allowed, "an object");
}

TEST(missing_files_are_named) {
  const tiny::Directory directory;
  const Model model;
  CHECK_EQ(ERROR_OF(Checkpoint::open(directory.path("none"))).found, "no such directory");
  CHECK_EQ(ERROR_OF(Checkpoint::open(directory.path())).file, directory.path("config.json"));
  directory.write("config.json", tiny::text(tiny::config()));
  const auto no_index = ERROR_OF(Checkpoint::open(directory.path()));
  CHECK_EQ(no_index.file, directory.path(kIndex));
  CHECK_EQ(no_index.allowed, "the index of the shards, or a single model.safetensors");
  model.write(directory);
  std::filesystem::remove(directory.path("part-1.safetensors"));
  CHECK_EQ(ERROR_OF(Checkpoint::open(directory.path())).file, directory.path("part-1.safetensors"));
}

TEST(identity_covers_texts_headers_and_lengths) {
  const tiny::Directory directory;
  const Model model;
  model.write(directory);
  const auto labels = [&] {
    std::string text;
    for (const auto& [label, bytes] : Checkpoint::open(directory.path())->identity_parts()) text += label + "\n";
    return text;
  };
  const std::string shards =
      "part-0.safetensors header\npart-0.safetensors length\npart-1.safetensors header\npart-1.safetensors length\n";
  CHECK_EQ(labels(), "config.json\nmodel.safetensors.index.json\n" + shards);
  directory.write("tokenizer.json", "{}");
  CHECK_EQ(labels(), "config.json\ntokenizer.json\nmodel.safetensors.index.json\n" + shards);

  const auto checkpoint = Checkpoint::open(directory.path());
  const auto parts = checkpoint->identity_parts();
  CHECK_EQ(parts[0].second, tiny::text(tiny::config()));
  CHECK_EQ(parts[1].second, "{}");
  CHECK_EQ(parts[3].second.size(), checkpoint->shards()[0].header_bytes);
  CHECK_EQ(parts[3].second.substr(8, 16), R"({"__metadata__":)");
  CHECK_EQ(parts[3].second.back(), '}');
  CHECK_EQ(parts[4].second, std::to_string(checkpoint->shards()[0].length));
}

TEST(content_covers_every_file_whole) {
  const tiny::Directory directory;
  Model().write(directory);
  directory.write("tokenizer.json", "{}");
  std::string names;
  const auto checkpoint = Checkpoint::open(directory.path());
  for (const Checkpoint::Range& range : checkpoint->content_ranges()) {
    names += range.name + " ";
    CHECK_EQ(range.bytes, std::filesystem::file_size(directory.path(range.name)));
  }
  CHECK_EQ(names, "config.json tokenizer.json model.safetensors.index.json part-0.safetensors part-1.safetensors ");
}

TEST(errors_are_one_line) {
  const tiny::Directory directory;
  Model model;
  model.tensors.push_back({"a\\nb", "F32", {1}});  // an escape in the JSON text, a line feed in the name
  model.write(directory);
  const auto error = ERROR_OF(Checkpoint::open(directory.path()));
  CHECK_EQ(error.key, "a\\x0ab");
  CHECK_EQ(std::string(error.what()).find('\n'), std::string::npos);
  CHECK_EQ(std::string(error.what()), error.file + ": " + error.key + ": found " + error.found + ", allowed: " + error.allowed);
}
