// Routed experts and the shared expert (reference section 10), and how their terms are added up (study 2.5).
#include <algorithm>
#include <cstring>

#include "decoder/pass.h"
#include "decoder/router.h"

namespace kernels {
namespace {

// An expert with the (item, rank) pairs that chose it. The shared expert comes last, chosen by all, with rank k.
struct Slot {
  const Expert* expert;
  std::vector<std::int64_t> items;
  std::vector<int> ranks;
};

std::vector<Slot> group_by_expert(const Layer& layer, const std::vector<Route>& routes, int k) {
  std::vector<Slot> slots(layer.experts.size());
  for (std::size_t e = 0; e < layer.experts.size(); ++e) slots[e].expert = &layer.experts[e];
  for (std::size_t i = 0; i < routes.size(); ++i)
    for (int r = 0; r < k; ++r) {
      slots[routes[i].ids[r]].items.push_back(static_cast<std::int64_t>(i));
      slots[routes[i].ids[r]].ranks.push_back(r);
    }
  std::erase_if(slots, [](const Slot& s) { return s.items.empty(); });
  Slot shared{&layer.shared, {}, {}};
  for (std::size_t i = 0; i < routes.size(); ++i) {
    shared.items.push_back(static_cast<std::int64_t>(i));
    shared.ranks.push_back(k);
  }
  slots.push_back(std::move(shared));
  return slots;
}

}  // namespace

void feed_forward(Pass& pass, int l) {
  const Config& c = pass.model.config();
  const Layer& layer = pass.model.layers[l];
  const std::int64_t n = pass.count();
  const int k = c.num_experts_per_tok, d = c.hidden_size, inner = c.moe_intermediate_size;
  const bool round = pass.official;

  const Buffer logits(n, c.n_routed_experts);
  pass.linear({pass.task(layer.gate, pass.x, pass.x8, logits, false)});
  std::vector<Route> routes(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const Item& item = pass.items[i];
    const auto forced = item.intervention->routes.find(l);
    routes[i] = route(pass.model, l, item.token, logits[i], forced == item.intervention->routes.end() ? nullptr : &forced->second);
  }

  // every touched expert's weights are read once for all the items that chose it
  const std::vector<Slot> slots = group_by_expert(layer, routes, k);
  const std::int64_t pairs = n * (k + 1);
  const Buffer a(pairs, inner), b(pairs, inner), t(pairs, inner), t8(pairs, inner), v(pairs, d);
  const auto pair = [&](std::int64_t item, int rank) { return item * (k + 1) + rank; };
  struct Pointers {
    std::vector<const float*> x, x8, t, t8;
    std::vector<float*> a, b, v;
  };
  std::vector<Pointers> pointers(slots.size());
  std::vector<LinearTask> up, down;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const Expert& e = *slots[s].expert;
    Pointers& p = pointers[s];
    for (std::size_t j = 0; j < slots[s].items.size(); ++j) {
      const std::int64_t i = slots[s].items[j], at = pair(i, slots[s].ranks[j]);
      p.x.push_back(pass.x[i]);
      p.x8.push_back(pass.x8[i]);
      p.t.push_back(t[at]);
      p.t8.push_back(t8[at]);
      p.a.push_back(a[at]);
      p.b.push_back(b[at]);
      p.v.push_back(v[at]);
    }
    const int batch = static_cast<int>(p.x.size());
    const auto input = [&](const Matrix& w) { return (round && w.quantised() ? p.x8 : p.x).data(); };
    up.push_back({&e.w1, 0, inner, input(e.w1), p.a.data(), batch, round});
    up.push_back({&e.w3, 0, inner, input(e.w3), p.b.data(), batch, round});
    down.push_back({&e.w2, 0, d, (round && e.w2.quantised() ? p.t8 : p.t).data(), p.v.data(), batch, false});  // terms keep their FP32 sums
  }
  pass.linear(up);
  pass.pool.run(pairs, k + 1, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t i = at / (k + 1), rank = at % (k + 1);
      // the gate weight multiplies before w2, where it is rounded with the product (known failure T05); the shared expert has none
      const float gate = rank < k ? routes[i].weights[rank] : 1.0f;
      pass.ops.swiglu(a[at], b[at], inner, c.swiglu_limit, gate, round, t[at]);
      if (round) pass.ops.quantise_e4m3(t[at], inner, 128, t8[at]);
    }
  });
  pass.linear(down);

  pass.for_each_item([&](std::int64_t i) {
    const Item& item = pass.items[i];
    const Route& r = routes[i];
    const float* terms[kMaxTerms];
    for (int rank = 0; rank < k; ++rank) terms[rank] = v[pair(i, rank)];
    float* shared = v[pair(i, k)];
    if (round) pass.ops.round_bf16(shared, d);
    const auto found = item.intervention->aggregation.find(l);
    const Aggregation how = found == item.intervention->aggregation.end() ? Aggregation{} : found->second;
    aggregate(pass.ops, how.scheme, permutation(how.order, k), terms, r.ids.data(), k, shared, d, round, pass.y[i]);

    if (std::int32_t* out = pass.capture_integers(i, Capture::route, l, k)) std::copy(r.ids.begin(), r.ids.end(), out);
    pass.capture_copy(i, Capture::route_weights, l, r.weights.data(), k);
    pass.capture_copy(i, Capture::router_scores, l, r.scores.data(), c.n_routed_experts);
    pass.capture_copy(i, Capture::router_margin, l, &r.margin, 1);
    if (float* out = pass.capture(i, Capture::moe_terms, l, static_cast<std::int64_t>(k) * d))
      for (int rank = 0; rank < k; ++rank) std::memcpy(out + static_cast<std::int64_t>(rank) * d, terms[rank], sizeof(float) * d);
    pass.capture_copy(i, Capture::moe_shared, l, shared, d);
    pass.capture_copy(i, Capture::moe_output, l, pass.y[i], d);
  });
}

}  // namespace kernels
