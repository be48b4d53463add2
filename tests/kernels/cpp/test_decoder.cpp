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

TEST(rows_that_share_their_layers_part_where_they_differ) {
  Decoder one(mote(), kIdentity, 1, Numerics::official), two(mote(), kIdentity, 2, Numerics::official);
  State prefix = one.new_state();
  feed(one, prefix, {5, 77, 901});
  const std::string before = prefix.serialise();
  Intervention order, route;
  order.aggregation[4] = {Scheme::A, 100};
  order.capture = {Capture::moe_output, Capture::logits};
  route.routes[7] = {0, 1, 2, 3, 4, 5};
  const Intervention* each[] = {&kNative, &order, &kNative, &route, &order};
  std::vector<State> forks(5, prefix), copies(5, one.new_state());
  for (State& copy : copies) copy.restore(before);
  for (const std::vector<int>& tokens : {std::vector<int>{9}, {10, 11, 12}}) {
    std::vector<RowRequest> rows;
    for (int r = 0; r < 5; ++r) rows.push_back({&forks[r], tokens, each[r]});
    const std::vector<RowResult> together = two.step(rows);
    for (int r = 0; r < 5; ++r) {
      const RowResult alone = one.step({{&copies[r], tokens, each[r]}})[0];
      CHECK(together[r].logits == alone.logits);
      CHECK(forks[r].serialise() == copies[r].serialise());
      for (std::size_t c = 0; c < alone.captures.size(); ++c) CHECK(together[r].captures[c].second.floats == alone.captures[c].second.floats);
    }
    // of the lowest layers all rows still hold one, of the highest those hold one that were never changed
    CHECK(forks[0].layers[4] == forks[4].layers[4]);
    CHECK(forks[0].layers.back() == forks[2].layers.back());
    CHECK(forks[0].layers.back() != forks[1].layers.back());
    CHECK(forks[1].layers.back() == forks[4].layers.back());
  }
  CHECK(prefix.serialise() == before);
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
