// Attention over the sliding window and the compressed rows (reference section 7).
#include <algorithm>
#include <atomic>
#include <cmath>

#include "decoder/bf16.h"
#include "decoder/compressor.h"
#include "decoder/indexer.h"
#include "decoder/pass.h"

namespace kernels {
namespace {

// What an item attends to. A later token of the same chunk may replace a row in the window: the journal keeps it alive.
struct Keys {
  const float** list = nullptr;   // window, oldest first, then compressed rows in attention order
  int window = 0, count = 0;
  int finished = 0;               // compressed rows that existed when this token was done with its compressor
};

constexpr std::int64_t kCompressorWork = 130'000;  // one token's, and as much its place in the window's

// Window write and compressors, token after token: the only stage that a chunk's tokens must walk through in turn.
void advance_state(Pass& pass, int l, std::int64_t i, const Buffer& kv, const CompressorInput& main, const CompressorInput& index, Keys& keys) {
  const Config& c = pass.model.config();
  const Layer& layer = pass.model.layers[l];
  const Item& item = pass.items[i];
  LayerState& state = *pass.lead(item).state->layers[l];
  Journal& journal = pass.lead(item).journal;
  const std::int64_t p = item.position, window = c.sliding_window;
  journal.replace(state.window[p % window], make_row(kv[i], c.head_dim));
  if (layer.ratio != 0) advance(pass, layer.compressor, false, p, main, state.main, journal);
  if (layer.ratio == 4) advance(pass, layer.indexer.compressor, true, p, index, state.index, journal);
  for (std::int64_t q = std::max<std::int64_t>(0, p - window + 1); q <= p; ++q) keys.list[keys.window++] = state.window[q % window].get();
  keys.count = keys.window;
  keys.finished = static_cast<int>(state.main.rows.size());
}

// Gives a bundle a layer of its own: the one that all its rows share, or a copy for them when others hold that one too.
void own_layer(Pass& pass, int l, const Bundle& bundle) {
  const std::shared_ptr<LayerState>& shared = pass.rows[bundle.lead()].state->layers[l];
  if (shared.use_count() == static_cast<long>(bundle.rows.size())) {
    std::atomic_thread_fence(std::memory_order_acquire);  // whoever let go of it has read it before
    return;
  }
  const auto copy = std::make_shared<LayerState>(*shared);
  for (const int row : bundle.rows) pass.rows[row].journal.replace(pass.rows[row].state->layers[l], copy);
}

// Asks for the keys [begin, end): they lie wherever they were made, each a few lines that nothing else foresees.
void fetch_keys(const Keys& keys, std::int64_t begin, std::int64_t end, int head_dim) {
  for (std::int64_t k = begin; k < end; ++k)
    for (int at = 0; at < head_dim; at += 16) __builtin_prefetch(keys.list[k] + at);
}

// Calls body(item, first head, heads) for runs of at most kMostHeads heads of an item, split over the threads.
template <class Body> void for_each_heads(Pass& pass, std::int64_t heads, Body body) {
  pass.pool.run(pass.count() * heads, kMostHeads, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t h = at % heads, count = std::min<std::int64_t>({heads - h, end - at, kMostHeads});
      body(at / heads, h, count);
      at += count;
    }
  });
}

// Keys that an item at `position` attends to at most.
std::int64_t most_keys(const Config& c, int ratio, std::int64_t position) {
  const std::int64_t window = std::min<std::int64_t>(position + 1, c.sliding_window), finished = ratio == 0 ? 0 : (position + 1) / ratio;
  return window + (ratio == 4 ? std::min<std::int64_t>(finished, c.index_topk) : finished);
}

}  // namespace

void attention(Pass& pass, int l) {
  const Config& c = pass.model.config();
  const Layer& layer = pass.model.layers[l];
  const bool compressed = layer.ratio != 0, indexed = layer.ratio == 4, round = pass.official;
  const std::int64_t n = pass.count();
  Arena& arena = pass.arena;
  const Arena::Scope scope(arena);
  const int hd = c.head_dim, heads = c.num_attention_heads;

  // projections of the normed input; the compressors' stay FP32
  Buffer qr(arena, n, c.q_lora_rank), qr8(arena, n, c.q_lora_rank), kv(arena, n, hd), c_kv, c_score, i_kv, i_score, i_weights;
  std::vector<LinearTask> tasks;
  tasks.reserve(7);
  tasks.push_back(pass.task(layer.wq_a, pass.x, pass.x8, qr, true));
  tasks.push_back(pass.task(layer.wkv, pass.x, pass.x8, kv, true));
  if (compressed) {
    c_kv = Buffer(arena, n, layer.compressor.width);
    c_score = Buffer(arena, n, layer.compressor.width);
    tasks.push_back(pass.task(layer.compressor.wkv, pass.x, pass.x8, c_kv, false));
    tasks.push_back(pass.task(layer.compressor.wgate, pass.x, pass.x8, c_score, false));
  }
  if (indexed) {
    i_kv = Buffer(arena, n, layer.indexer.compressor.width);
    i_score = Buffer(arena, n, layer.indexer.compressor.width);
    i_weights = Buffer(arena, n, c.index_n_heads);
    tasks.push_back(pass.task(layer.indexer.compressor.wkv, pass.x, pass.x8, i_kv, false));
    tasks.push_back(pass.task(layer.indexer.compressor.wgate, pass.x, pass.x8, i_score, false));
    tasks.push_back(pass.task(layer.indexer.weights_proj, pass.x, pass.x8, i_weights, true));
  }
  pass.linear(tasks);

  pass.for_each_item([&](std::int64_t i) {
    const Item& item = pass.items[i];
    pass.ops.rms_norm(qr[i], layer.q_norm.data(), c.q_lora_rank, c.rms_norm_eps, round, qr[i]);
    if (round) pass.ops.quantise_e4m3(qr[i], c.q_lora_rank, 128, qr8[i]);
    pass.ops.rms_norm(kv[i], layer.kv_norm.data(), hd, c.rms_norm_eps, round, kv[i]);
    pass.rope.rotate(pass.ops, kv[i], hd, compressed ? *item.compressed : *item.plain, false, round);
    if (round) pass.ops.quantise_e4m3(kv[i], hd - c.qk_rope_head_dim, 64, kv[i]);
  });

  const Buffer q(arena, n, static_cast<std::int64_t>(heads) * hd);
  Buffer iq;
  tasks.clear();
  tasks.push_back(pass.task(layer.wq_b, qr, qr8, q, true));
  if (indexed) {
    iq = Buffer(arena, n, static_cast<std::int64_t>(c.index_n_heads) * c.index_head_dim);
    tasks.push_back(pass.task(layer.indexer.wq_b, qr, qr8, iq, true));
  }
  Keys* keys = arena.take<Keys>(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    keys[i] = {arena.take<const float*>(static_cast<std::size_t>(most_keys(c, layer.ratio, pass.items[i].position)))};
  const auto advance_bundles = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const Bundle& bundle = pass.bundles[b];
      own_layer(pass, l, bundle);
      for (std::int64_t i = bundle.first_item; i < bundle.first_item + bundle.tokens; ++i)
        advance_state(pass, l, i, kv, {compressed ? c_kv[i] : nullptr, compressed ? c_score[i] : nullptr},
                      {indexed ? i_kv[i] : nullptr, indexed ? i_score[i] : nullptr}, keys[i]);
    }
  };
  // the state needs none of these products: one bundle, which one thread must take, goes beside them
  const std::int64_t bundles = static_cast<std::int64_t>(pass.bundles.size());
  if (bundles == 1) {
    pass.linear(tasks, n * (indexed ? 3 : compressed ? 2 : 1) * kCompressorWork, [&](int) { advance_bundles(0, 1); });
  } else {
    pass.linear(tasks);
    pass.pool.run(bundles, 1, [&](int, std::int64_t begin, std::int64_t end) { advance_bundles(begin, end); });
  }

  if (indexed)
    for_each_heads(pass, c.index_n_heads, [&](std::int64_t i, std::int64_t h, std::int64_t count) {
      if (keys[i].finished > 0) prepare_queries(pass, *pass.items[i].compressed, iq[i] + h * c.index_head_dim, count);
    });
  const float head_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.index_head_dim) * c.index_n_heads));
  pass.for_each_item([&](std::int64_t i) {
    const Item& item = pass.items[i];
    const LayerState& state = *pass.lead(item).state->layers[l];
    Keys& k = keys[i];
    IndexSelection selection{{}, HUGE_VALF};
    if (indexed && k.finished > 0) {
      float* w = i_weights[i];
      for (int h = 0; h < c.index_n_heads; ++h) w[h] *= head_scale;
      if (round) for (int h = 0; h < c.index_n_heads; ++h) w[h] = round_bf16(w[h]);
      selection = select_rows(pass, iq[i], w, state.index.rows, k.finished);
      for (const int row : selection.rows) k.list[k.count++] = state.main.rows[row].get();
    } else {
      for (int row = 0; row < k.finished; ++row) k.list[k.count++] = state.main.rows[row].get();
    }
    pass.capture(i, Capture::index_rows, l, selection.rows, c.index_topk);
    pass.capture(i, Capture::index_margin, l, &selection.margin, 1);
  });

  const Buffer o(arena, n, static_cast<std::int64_t>(heads) * hd);
  for_each_heads(pass, heads, [&](std::int64_t i, std::int64_t h, std::int64_t count) {
    float score[64 * kMostHeads];
    const Angles& angles = compressed ? *pass.items[i].compressed : *pass.items[i].plain;
    if (i + 1 < n) fetch_keys(keys[i + 1], keys[i + 1].count * h / heads, keys[i + 1].count * (h + count) / heads, hd);
    float *queries = q[i] + h * hd, *out = o[i] + h * hd;
    for (std::int64_t g = 0; g < count; ++g) {
      pass.ops.head_norm(queries + g * hd, hd, c.rms_norm_eps, round);
      pass.rope.rotate(pass.ops, queries + g * hd, hd, angles, false, round);
    }
    pass.ops.attend(queries, keys[i].list, keys[i].window, c.sliding_window, keys[i].count, hd, static_cast<int>(count),
                    layer.attn_sink.data() + h, round, score, out);
    for (std::int64_t g = 0; g < count; ++g) pass.rope.rotate(pass.ops, out + g * hd, hd, angles, true, round);
  });

  // grouped output: group g's rows of wo_a see group g's heads only, and take no activation quantisation
  const int groups = c.o_groups, rank = c.o_lora_rank;
  const Buffer z(arena, n, static_cast<std::int64_t>(groups) * rank), z8(arena, n, static_cast<std::int64_t>(groups) * rank);
  tasks.clear();
  for (int g = 0; g < groups; ++g) {
    const float** slices = arena.take<const float*>(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) slices[i] = o[i] + static_cast<std::int64_t>(g) * layer.wo_a.cols;
    tasks.push_back({&layer.wo_a, g * rank, (g + 1) * rank, slices, z.rows(), static_cast<int>(n), round});
  }
  pass.linear(tasks);
  if (round) pass.for_each_item([&](std::int64_t i) { pass.ops.quantise_e4m3(z[i], groups * rank, 128, z8[i]); });
  pass.linear({pass.task(layer.wo_b, z, z8, pass.y, true)});
}

}  // namespace kernels
