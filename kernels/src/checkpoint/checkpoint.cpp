#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "checkpoint/errors.h"
#include "checkpoint/json.h"
#include "checkpoint/layout.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/text.h"

namespace kernels {
namespace {

constexpr char kConfig[] = "config.json";
constexpr char kTokenizer[] = "tokenizer.json";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kSingle[] = "model.safetensors";

struct DTypeName {
  DType dtype;
  const char* tag;
  int bytes;
};

constexpr DTypeName kDTypes[] = {
    {DType::F32, "F32", 4}, {DType::BF16, "BF16", 2}, {DType::F8_E4M3, "F8_E4M3", 1}, {DType::F8_E8M0, "F8_E8M0", 1},
    {DType::I8, "I8", 1},   {DType::I32, "I32", 4},   {DType::I64, "I64", 8},
};

const DTypeName& dtype_entry(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

// The index: which shard holds each tensor, and what metadata.total_size promises.
class Index {
 public:
  Index(std::string_view text, const std::string& file) : file_(file), document_(json::parse(text, file)) {
    const json::Object* root = document_.object();
    if (root == nullptr) fail("", json::describe(&document_), "an object");
    const json::Value* map = json::find(*root, "weight_map");
    weight_map_ = map != nullptr ? map->object() : nullptr;
    if (weight_map_ == nullptr || weight_map_->empty())
      fail("weight_map", json::describe(map), "an object of tensor name to shard file");
    for (const json::Member& member : *weight_map_) {
      const std::string* shard = member.value.string();
      if (shard == nullptr || !is_file_name(*shard))
        fail("weight_map." + printable(member.key), json::describe(&member.value),
             "the name of a .safetensors file in this directory");
      shards_.push_back(*shard);
    }
    std::sort(shards_.begin(), shards_.end());
    shards_.erase(std::unique(shards_.begin(), shards_.end()), shards_.end());
  }

  const std::string& file() const { return file_; }
  const std::vector<std::string>& shards() const { return shards_; }  // distinct, sorted

  // The index must list every tensor of a shard, and with that shard.
  void check_shard(const std::string& name, const std::string& path, const ShardHeader& header) const {
    for (const HeaderEntry& entry : header.entries) {
      const json::Value* listed = json::find(*weight_map_, entry.name);
      if (listed == nullptr)
        throw CheckpointError(path, printable(entry.name), "a tensor that the index does not list",
                              std::string("the tensors that ") + kIndex + " lists");
      if (*listed->string() != name)
        fail("weight_map." + printable(entry.name), quoted(*listed->string()), quoted(name) + ", which holds it");
    }
  }

  // After check_shard() of all: every tensor that the index lists is in its shard, and their payloads sum to total_size.
  void check_all(const StoredTensors& stored, std::uint64_t total) const {
    for (const json::Member& member : *weight_map_)
      if (stored.count(member.key) == 0)
        fail("weight_map." + printable(member.key), quoted(*member.value.string()) + ", which does not hold it",
             "the shard that holds the tensor");
    const json::Value* metadata = json::find(*document_.object(), "metadata");
    if (metadata == nullptr || metadata->is_null()) return;
    if (metadata->object() == nullptr) fail("metadata", json::describe(metadata), "an object");
    const json::Value* size = json::find(*metadata->object(), "total_size");
    if (size != nullptr && (size->integer() == nullptr || static_cast<std::uint64_t>(*size->integer()) != total))
      fail("metadata.total_size", json::describe(size), std::to_string(total) + ", the payload bytes of all tensors");
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& found, const std::string& allowed) const {
    throw CheckpointError(file_, key, found, allowed);
  }

  // A path could leave the directory that a user meant to open.
  static bool is_file_name(const std::string& name) {
    constexpr std::string_view kSuffix = ".safetensors";
    return name.size() > kSuffix.size() && name.size() <= 255 && name.find('/') == std::string::npos &&
           name.find('\0') == std::string::npos && std::string_view(name).substr(name.size() - kSuffix.size()) == kSuffix;
  }

  std::string file_;
  json::Value document_;
  const json::Object* weight_map_ = nullptr;
  std::vector<std::string> shards_;
};

}  // namespace

const char* dtype_name(DType dtype) { return dtype_entry(dtype).tag; }
int dtype_size(DType dtype) { return dtype_entry(dtype).bytes; }

Checkpoint::Checkpoint() = default;
Checkpoint::~Checkpoint() = default;

const MappedFile& Checkpoint::map(const std::string& name, const std::string& allowed) {
  files_.emplace_back(name, std::make_unique<MappedFile>(directory_ + "/" + name, allowed));
  return *files_.back().second;
}

void Checkpoint::add_shard(const MappedFile& file, const std::string& name, const ShardHeader& header) {
  shards_.push_back({name, file.size(), header.bytes});
  for (const HeaderEntry& entry : header.entries) {
    ++tensor_count_;
    ++dtype_counts_[entry.type->tag];
    total_bytes_ += entry.end - entry.begin;
    if (is_mtp(entry.name)) {
      ++skipped_count_;
      continue;
    }
    Tensor tensor;
    for (const DTypeName& known : kDTypes)
      if (std::string_view(known.tag) == entry.type->tag) tensor.dtype = known.dtype;
    tensor.rank = static_cast<int>(entry.shape.size());
    tensor.shape = {entry.shape[0], tensor.rank == 2 ? entry.shape[1] : 1};
    tensor.data = file.data() + entry.begin;
    tensor.bytes = entry.end - entry.begin;
    tensors_.emplace(entry.name, tensor);
  }
}

std::shared_ptr<const Checkpoint> Checkpoint::open(const std::string& directory) {
  std::shared_ptr<Checkpoint> self(new Checkpoint);
  self->directory_ = directory;
  if (!exists(directory))
    throw CheckpointError(directory, "", "no such directory", "a directory with a checkpoint in the official layout");

  const MappedFile& config = self->map(kConfig, "the configuration of the checkpoint");
  self->config_ = Config::parse(std::string(config.text()), config.path());
  if (exists(directory + "/" + kTokenizer)) self->map(kTokenizer, "a readable tokenizer.json, or none");

  const bool single = !exists(directory + "/" + kIndex) && exists(directory + "/" + kSingle);
  std::unique_ptr<Index> index;
  std::vector<std::string> names = {kSingle};
  if (!single) {
    const MappedFile& file = self->map(kIndex, std::string("the index of the shards, or a single ") + kSingle);
    index = std::make_unique<Index>(file.text(), file.path());
    names = index->shards();
  }

  // Headers first, all of them: the layout is checked before any Tensor is made of an entry.
  std::vector<std::pair<const MappedFile*, ShardHeader>> shards;
  shards.reserve(names.size());
  StoredTensors stored;
  std::uint64_t total = 0;
  for (const std::string& name : names) {
    const MappedFile& file = self->map(name, "each of the " + std::to_string(names.size()) + " shards that the index names");
    shards.emplace_back(&file, read_header(file.data(), file.size(), file.path()));
    const ShardHeader& header = shards.back().second;
    if (index) index->check_shard(name, file.path(), header);
    for (const HeaderEntry& entry : header.entries) {
      stored.emplace(entry.name, StoredTensor{&entry, &file.path()});
      total += entry.end - entry.begin;
    }
  }
  if (index) index->check_all(stored, total);
  check_layout(self->config_, stored, index ? index->file() : shards.front().first->path());

  self->tensors_.reserve(stored.size());
  for (std::size_t i = 0; i < shards.size(); ++i) self->add_shard(*shards[i].first, names[i], shards[i].second);
  return self;
}

const Tensor* Checkpoint::find(const std::string& name) const {
  const auto at = tensors_.find(name);
  return at != tensors_.end() ? &at->second : nullptr;
}

const Tensor& Checkpoint::tensor(const std::string& name) const {
  const Tensor* found = find(name);
  if (found == nullptr) throw std::logic_error("tensor outside the checked layout: " + name);
  return *found;
}

std::vector<std::pair<std::string, std::string>> Checkpoint::identity_parts() const {
  std::vector<std::pair<std::string, std::string>> parts;
  const std::size_t whole = files_.size() - shards_.size();
  for (std::size_t i = 0; i < whole; ++i) parts.emplace_back(files_[i].first, files_[i].second->text());
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const Shard& shard = shards_[i];
    parts.emplace_back(shard.name + " header", files_[whole + i].second->text().substr(0, shard.header_bytes));
    parts.emplace_back(shard.name + " length", std::to_string(shard.length));
  }
  return parts;
}

const MappedFile* Checkpoint::file_of(const std::uint8_t* data) const {
  for (const auto& [name, file] : files_)
    if (file->data() != nullptr && data >= file->data() && data < file->data() + file->size()) return file.get();
  return nullptr;
}

bool Checkpoint::cached(const std::uint8_t* data, std::uint64_t bytes) const {
  const MappedFile* file = file_of(data);
  return file != nullptr && file->cached(static_cast<std::uint64_t>(data - file->data()), bytes);
}

void Checkpoint::read_ahead(const std::uint8_t* data, std::uint64_t bytes) const {
  if (const MappedFile* file = file_of(data)) file->read_ahead(static_cast<std::uint64_t>(data - file->data()), bytes);
}

std::vector<Checkpoint::Range> Checkpoint::content_ranges() const {
  std::vector<Range> ranges;
  for (const auto& [name, file] : files_) ranges.push_back({name, file->data(), file->size()});
  return ranges;
}

}  // namespace kernels
