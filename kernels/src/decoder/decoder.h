// The decoder: a checkpoint's model, threads, and the step that advances rows of states (design: decoder interface).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "decoder/pass.h"

namespace kernels {

struct RowRequest {
  State* state;
  std::vector<int> tokens;        // T >= 1
  const Intervention* intervention;
};

class Decoder {
 public:
  // identity: the checkpoint's, which states carry. Throws KernelError when threads < 1.
  Decoder(std::shared_ptr<const Checkpoint> checkpoint, std::string identity, int threads, Numerics numerics);

  State new_state() const { return State(config_, numerics_, identity_); }
  // Advances each row's state by its tokens. Weights are read once for all rows. A row's result depends on its own state, tokens and
  // intervention only. On any error (KernelError, InterventionError, StateMismatch, CheckpointError) no state has changed.
  std::vector<RowResult> step(const std::vector<RowRequest>& rows);

  int threads() const { return pool_.threads(); }
  Numerics numerics() const { return numerics_; }

 private:
  void check(const std::vector<RowRequest>& rows) const;

  std::string identity_;
  Numerics numerics_;
  std::shared_ptr<const Config> config_;  // shares ownership of the checkpoint
  Model model_;
  Rope rope_;
  ThreadPool pool_;
  ReadAhead read_ahead_;
  Arena arena_;                           // of the step in flight
  std::mutex turn_;                       // callers from several threads take turns; a state in a step is the step's alone
};

}  // namespace kernels
