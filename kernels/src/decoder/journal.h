// What a step has changed in one state so far. Unless it is kept, its end takes everything back, so that a step that fails leaves the state
// as it was. Rows and layers that were replaced stay alive as long as the journal.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "decoder/state.h"

namespace kernels {

class Journal {
 public:
  Journal() = default;
  Journal(Journal&& other) noexcept
      : layers_(std::move(other.layers_)), replaced_(std::move(other.replaced_)), grown_(std::move(other.grown_)) {
    other.keep();
  }
  Journal& operator=(Journal&&) = delete;
  ~Journal() {
    for (auto at = replaced_.rbegin(); at != replaced_.rend(); ++at) *at->first = std::move(at->second);
    for (auto at = grown_.rbegin(); at != grown_.rend(); ++at) (*at)->pop_back();
    for (auto at = layers_.rbegin(); at != layers_.rend(); ++at) *at->first = std::move(at->second);
  }

  // slot: of State::layers; before anything in the new layer is changed
  void replace(std::shared_ptr<LayerState>& slot, std::shared_ptr<LayerState> layer) {
    layers_.emplace_back(&slot, nullptr);  // so that nothing after it can fail
    layers_.back().second = std::exchange(slot, std::move(layer));
  }

  // slot: of a vector that does not grow (window, kv, score)
  void replace(RowPtr& slot, RowPtr row) {
    replaced_.emplace_back(&slot, nullptr);
    replaced_.back().second = std::exchange(slot, std::move(row));
  }
  void append(std::vector<RowPtr>& rows, RowPtr row) {
    if (grown_.size() == grown_.capacity()) grown_.reserve(2 * grown_.capacity() + 8);  // so that the last line cannot fail
    rows.push_back(std::move(row));
    grown_.push_back(&rows);
  }
  void keep() noexcept {
    layers_.clear();
    replaced_.clear();
    grown_.clear();
  }

 private:
  std::vector<std::pair<std::shared_ptr<LayerState>*, std::shared_ptr<LayerState>>> layers_;
  std::vector<std::pair<RowPtr*, RowPtr>> replaced_;
  std::vector<std::vector<RowPtr>*> grown_;
};

}  // namespace kernels
