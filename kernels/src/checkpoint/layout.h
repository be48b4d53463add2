// The tensors that a checkpoint of the official layout holds (reference section 2), and the check of a directory against them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"

namespace kernels {

// How a tensor may be stored. The dtype tag of the file decides among the formats of a storage, never the name.
enum class Storage {
  Plain,   // F32 or BF16
  Linear,  // [out, in] as F32 or BF16; or F8_E4M3 with .scale F8_E8M0 [ceil(out/128), ceil(in/128)]; or FP4 as I8 [out, in/2]
           // with .scale F8_E8M0 [out, in/32], in a multiple of 32. The scale stands if and only if the weight is FP8 or FP4.
  Table    // I64 or I32, expert ids
};

struct ExpectedTensor {
  std::string name;
  Storage storage;
  std::vector<std::int64_t> shape;  // logical, 1 or 2 extents
};

// Families outside the layers: embedding, head, final norm, hc_head.
std::vector<ExpectedTensor> model_tensors(const Config& config);
// Families of one layer.
std::vector<ExpectedTensor> layer_tensors(const Config& config, int layer);

// Tensors that belong to the multi-token-prediction module, which greedy decoding never runs: any set of them is accepted.
bool is_mtp(std::string_view name);

struct StoredTensor {
  const HeaderEntry* entry;
  const std::string* file;  // shard, for errors
};
using StoredTensors = std::unordered_map<std::string_view, StoredTensor>;

// Checks that `stored` is exactly the layout of `config` plus any mtp.*, each with an allowed dtype and its shape. Throws
// CheckpointError with the first fault, in layer order, then unknown tensors by name; for a missing tensor it names `file`.
void check_layout(const Config& config, const StoredTensors& stored, const std::string& file);

}  // namespace kernels
