#include "decoder/decoder.h"

#include <cstring>

#include "check.h"

// A real decode under the sanitizers: chunks, forks, restores, batches, threads and interventions on the embedded checkpoint.

using namespace kernels;

namespace {

std::shared_ptr<const Checkpoint> mote() {
  static const std::shared_ptr<const Checkpoint> checkpoint = Checkpoint::open("kernels/checkpoints/mote");
  return checkpoint;
}

const std::string kIdentity(64, '0');
const Intervention kNative;

RowResult feed(Decoder& decoder, State& state, std::vector<int> tokens) {
  std::vector<RowResult> results = decoder.step({{&state, std::move(tokens), &kNative}});
  return std::move(results[0]);
}

}  // namespace

TEST(chunks_forks_restores_and_threads_give_the_same_bits) {
  Decoder one(mote(), kIdentity, 1, Numerics::official), two(mote(), kIdentity, 2, Numerics::official);
  const std::vector<int> tokens = {5, 77, 901, 33, 8, 1200, 64, 2, 19};
  State whole = one.new_state(), cut = two.new_state();
  const RowResult expected = feed(one, whole, tokens);
  RowResult last;
  for (const int token : tokens) last = feed(two, cut, {token});
  CHECK(last.logits == expected.logits);
  CHECK(cut.serialise() == whole.serialise());

  State restored = one.new_state(), fork = whole;
  restored.restore(whole.serialise());
  const std::vector<RowResult> both = two.step({{&restored, {3, 4}, &kNative}, {&fork, {3, 4}, &kNative}});
  CHECK(both[0].logits == both[1].logits);
  CHECK(restored.serialise() == fork.serialise());
}

TEST(interventions_and_captures_stay_in_bounds) {
  Decoder decoder(mote(), kIdentity, 2, Numerics::official);
  const Config& c = mote()->config();
  Intervention all;
  for (int i = 0; i < kCaptures; ++i) all.capture.push_back(static_cast<Capture>(i));
  all.aggregation[c.num_hidden_layers - 1] = {Scheme::A, order_count(c.num_experts_per_tok) - 1};
  all.routes[c.num_hidden_layers - 1] = {0, 1, 2, 3, 4, c.n_routed_experts - 1};
  State a = decoder.new_state(), b = decoder.new_state();
  std::vector<RowResult> results = decoder.step({{&a, {1, 2, 3, 4, 5}, &all}, {&b, {c.vocab_size - 1}, &kNative}});
  for (const auto& [what, array] : results[0].captures) CHECK(!array.floats.empty() || !array.integers.empty());
}

TEST(what_cannot_run_is_refused_and_changes_nothing) {
  Decoder decoder(mote(), kIdentity, 1, Numerics::fp32);
  State state = decoder.new_state();
  feed(decoder, state, {1, 2, 3});
  const std::string before = state.serialise();
  Intervention wrong;
  const std::size_t size = static_cast<std::size_t>(mote()->config().hc_mult) * mote()->config().hidden_size;
  wrong.post_mhc_delta = PostMhcDelta{1, std::vector<float>(size), std::vector<float>(size), std::vector<float>(size)};
  bool refused = false;
  try {
    decoder.step({{&state, {4}, &wrong}});
  } catch (const StateMismatch&) {
    refused = true;
  }
  CHECK(refused);
  CHECK(state.serialise() == before);
}
