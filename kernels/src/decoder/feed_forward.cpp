// Routed experts and the shared expert (reference section 10), and how their terms are added up (study 2.5).
#include "decoder/pass.h"
#include "decoder/router.h"

namespace kernels {
namespace {

// A routed expert with the pairs of an item and a rank that chose it, items ascending: those at [begin, end) of Groups::pairs.
struct Slot {
  const Expert* expert;
  std::size_t begin, end;
};

struct Groups {
  std::vector<Slot> slots;
  std::vector<std::int64_t> pairs;  // item * k + rank
};

Groups group_by_expert(const Layer& layer, const Route* routes, std::int64_t n, int k) {
  const std::size_t experts = layer.experts.size();
  std::vector<std::size_t> next(experts + 1);  // first the counts, one place further, then where each expert's next pair goes
  for (std::int64_t i = 0; i < n; ++i)
    for (int rank = 0; rank < k; ++rank) ++next[static_cast<std::size_t>(routes[i].ids[rank]) + 1];
  Groups out;
  out.slots.reserve(std::min(experts, static_cast<std::size_t>(n * k)));
  for (std::size_t e = 0; e < experts; ++e) {
    const std::size_t begin = next[e];
    next[e + 1] += begin;
    if (next[e + 1] > begin) out.slots.push_back({&layer.experts[e], begin, next[e + 1]});
  }
  out.pairs.resize(next[experts]);
  for (std::int64_t i = 0; i < n; ++i)
    for (int rank = 0; rank < k; ++rank) out.pairs[next[static_cast<std::size_t>(routes[i].ids[rank])]++] = i * k + rank;
  return out;
}

constexpr std::int64_t kRouteWork = 200'000;  // one item's, with its experts, but for the gate

// The experts that an intervention forces at a layer; none: the router's.
const std::vector<int>& forced_route(const Intervention& intervention, int l) {
  static const std::vector<int> kNone;
  const auto found = intervention.routes.find(l);
  return found == intervention.routes.end() ? kNone : found->second;
}

Aggregation aggregation(const Intervention& intervention, int l) {
  const auto found = intervention.aggregation.find(l);
  return found == intervention.aggregation.end() ? Aggregation{} : found->second;
}

// What is read next: the experts of this layer, gates and ups first as they run first, then what the next layer's attention reads.
void expect_weights(Pass& pass, int l, const Groups& groups) {
  for (const Slot& s : groups.slots) pass.read_ahead.expect(s.expert->w1), pass.read_ahead.expect(s.expert->w3);
  for (const Slot& s : groups.slots) pass.read_ahead.expect(s.expert->w2);
  pass.read_ahead.expect(pass.model.layers[l].shared.w2);
  if (l + 1 == static_cast<int>(pass.model.layers.size())) return pass.read_ahead.expect(pass.model.head);
  const Layer& next = pass.model.layers[l + 1];
  for (const Matrix* w : {&next.hc_attn.fn, &next.wq_a, &next.wkv, &next.wq_b, &next.wo_a, &next.wo_b, &next.hc_ffn.fn, &next.shared.w1,
                          &next.shared.w3})
    pass.read_ahead.expect(*w);
  if (next.ratio != 0) pass.read_ahead.expect(next.compressor.wkv), pass.read_ahead.expect(next.compressor.wgate);
  if (next.ratio == 4) pass.read_ahead.expect(next.indexer.wq_b);
}

}  // namespace

void feed_forward(Pass& pass, int l) {
  const Config& c = pass.model.config();
  const Layer& layer = pass.model.layers[l];
  const int k = c.num_experts_per_tok, d = c.hidden_size, inner = c.moe_intermediate_size;
  const bool round = pass.official;

  pass.part([&](int row) { return forced_route(*pass.rows[row].intervention, l); });
  const std::int64_t n = pass.count();
  Arena& arena = pass.arena;
  const Arena::Scope scope(arena);
  const std::int64_t pairs = n * (k + 1);  // of an item and a rank, the shared expert's, which comes last, after all others'
  const auto pair = [&](std::int64_t i, int rank) { return rank < k ? i * k + rank : n * k + i; };
  const Buffer a(arena, pairs, inner), b(arena, pairs, inner), t(arena, pairs, inner), t8(arena, pairs, inner), v(arena, pairs, d);
  // a product of the shared expert's, which all items meet
  const auto shared_task = [&](const Matrix& w, float* const* plain, float* const* quantised, float* const* out, bool rounded) {
    return LinearTask{&w, 0, w.rows, round && w.quantised() ? quantised : plain, out, static_cast<int>(n), rounded};
  };
  const LinearTask shared_up[] = {shared_task(layer.shared.w1, pass.x.rows(), pass.x8.rows(), a.rows() + n * k, round),
                                  shared_task(layer.shared.w3, pass.x.rows(), pass.x8.rows(), b.rows() + n * k, round)};

  const Buffer scores(arena, n, c.n_routed_experts);
  Route* routes = arena.take<Route>(static_cast<std::size_t>(n));
  const auto choose = [&](std::int64_t i) {
    routes[i] = route(pass, l, pass.items[i].token, scores[i], forced_route(*pass.lead(pass.items[i]).intervention, l));
  };
  Groups groups;  // every touched expert's weights are read once for all the items that chose it
  const auto group = [&] {
    groups = group_by_expert(layer, routes, n, k);
    expect_weights(pass, l, groups);
  };
  const LinearTask gate = pass.task(layer.gate, pass.x, pass.x8, scores, false);
  const std::int64_t choosing = work_of(gate) + kRouteWork, others = work_of(shared_up[0]) + work_of(shared_up[1]);
  if (n == 1 && choosing * pass.pool.threads() <= choosing + others) {  // else one thread would be at it when the others are done
    pass.linear(shared_up, choosing, [&](int thread) { pass.run(gate, thread), choose(0), group(); });
  } else {
    pass.linear({gate});
    pass.for_each_item(choose);
    group();
    pass.linear(shared_up);
  }

  // of the pairs in the groups' order
  const std::size_t count = groups.pairs.size();
  const float **px = arena.take<const float*>(count), **px8 = arena.take<const float*>(count), **pt = arena.take<const float*>(count),
              **pt8 = arena.take<const float*>(count);
  float **pa = arena.take<float*>(count), **pb = arena.take<float*>(count), **pv = arena.take<float*>(count);
  for (std::size_t j = 0; j < count; ++j) {
    const std::int64_t at = groups.pairs[j], i = at / k;
    px[j] = pass.x[i], px8[j] = pass.x8[i];
    pt[j] = t[at], pt8[j] = t8[at];
    pa[j] = a[at], pb[j] = b[at], pv[j] = v[at];
  }
  std::vector<LinearTask> up, down;
  up.reserve(2 * groups.slots.size());
  down.reserve(groups.slots.size() + 1);
  for (const Slot& s : groups.slots) {
    const Expert& e = *s.expert;
    const int batch = static_cast<int>(s.end - s.begin);
    const auto input = [&](const Matrix& w) { return (round && w.quantised() ? px8 : px) + s.begin; };
    up.push_back({&e.w1, 0, inner, input(e.w1), pa + s.begin, batch, round});
    up.push_back({&e.w3, 0, inner, input(e.w3), pb + s.begin, batch, round});
    down.push_back({&e.w2, 0, d, (round && e.w2.quantised() ? pt8 : pt) + s.begin, pv + s.begin, batch, false});  // terms keep their FP32 sums
  }
  down.push_back(shared_task(layer.shared.w2, t.rows() + n * k, t8.rows() + n * k, v.rows() + n * k, false));
  pass.linear(up);
  pass.for_each_item([&](std::int64_t i) {
    for (int rank = 0; rank <= k; ++rank) {
      const std::int64_t at = pair(i, rank);
      // the gate weight multiplies before w2, where it is rounded with the product (known failure T05); the shared expert has none
      const float weight = rank < k ? routes[i].weights[rank] : 1.0f;
      pass.ops.swiglu(a[at], b[at], inner, c.swiglu_limit, weight, round, t[at]);
      if (round) pass.ops.quantise_e4m3(t[at], inner, 128, t8[at]);
    }
  });
  pass.linear(down);

  if (round) pass.for_each_item([&](std::int64_t i) { pass.ops.round_bf16(v[pair(i, k)], d); });

  // the terms are the same for all rows of a bundle; in which order they are added up need not be
  const std::vector<std::int64_t>& origin = pass.part([&](int row) { return aggregation(*pass.rows[row].intervention, l); });
  pass.for_each_item([&](std::int64_t i) {
    const Route& r = routes[origin[i]];
    const float* terms[kMaxTerms];
    for (int rank = 0; rank < k; ++rank) terms[rank] = v[pair(origin[i], rank)];
    const float* shared = v[pair(origin[i], k)];
    const Aggregation how = aggregation(*pass.lead(pass.items[i]).intervention, l);
    aggregate(pass.ops, how.scheme, how.scheme == Scheme::native ? std::vector<int>() : permutation(how.order, k), terms, r.ids, k, shared, d, round,
              pass.y[i]);

    const auto ranks = static_cast<std::size_t>(k);
    pass.capture(i, Capture::route, l, std::span(r.ids, ranks), k);
    pass.capture(i, Capture::route_weights, l, r.weights, k);
    pass.capture(i, Capture::router_scores, l, scores[origin[i]], c.n_routed_experts);
    pass.capture(i, Capture::router_margin, l, &r.margin, 1);
    pass.capture(i, Capture::moe_terms, l, terms[0], static_cast<std::int64_t>(k) * d);  // the terms of an item lie one after another
    pass.capture(i, Capture::moe_shared, l, shared, d);
    pass.capture(i, Capture::moe_output, l, pass.y[i], d);
  });
}

}  // namespace kernels
