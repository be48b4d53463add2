// The streams' last mix, the final norm and the logits (reference section 5).
#include <algorithm>
#include <cmath>
#include <string>

#include "checkpoint/errors.h"
#include "decoder/finite.h"
#include "decoder/pass.h"

namespace kernels {
namespace {

struct TopTwo {
  int best = 0;            // lowest index on a tie
  float margin = 0;        // best minus second best
};

constexpr int kSearched = 64;  // values whose greatest is found at once

float greatest(const float* x, int n) {
  float lanes[16];
  std::fill_n(lanes, 16, -HUGE_VALF);
  int v = 0;
  for (; v + 16 <= n; v += 16)
    for (int j = 0; j < 16; ++j) lanes[j] = x[v + j] > lanes[j] ? x[v + j] : lanes[j];
  for (; v < n; ++v) lanes[0] = x[v] > lanes[0] ? x[v] : lanes[0];
  return *std::max_element(lanes, lanes + 16);
}

// of finite values
TopTwo top_two(const float* logits, int n) {
  float best = -HUGE_VALF, second = -HUGE_VALF;
  int where = 0;  // the first piece that holds the best
  for (int v = 0; v < n; v += kSearched) {
    const float top = greatest(logits + v, std::min(kSearched, n - v));
    if (top > best) second = best, best = top, where = v;
    else if (top > second) second = top;
  }
  const int token = static_cast<int>(std::find(logits + where, logits + n, best) - logits);
  for (int v = where; v < std::min(where + kSearched, n); ++v)
    if (v != token && logits[v] > second) second = logits[v];
  return {token, n == 1 ? HUGE_VALF : best - second};
}

}  // namespace

void head(Pass& pass) {
  const Config& c = pass.model.config();
  const HyperConnection& hc = pass.model.hc_head;
  const int n = c.hc_mult, wide = n * c.hidden_size;
  const Arena::Scope scope(pass.arena);
  const Buffer m(pass.arena, pass.count(), n);
  pass.linear({pass.task(hc.fn, pass.streams, pass.streams, m, false)});
  pass.for_each_item([&](std::int64_t i) {
    const float* v = pass.streams[i];
    const float g = 1.0f / std::sqrt(pass.ops.dot(v, v, wide) / static_cast<float>(wide) + c.rms_norm_eps);
    float w[kMostStreams];
    for (int s = 0; s < n; ++s) w[s] = m[i][s] * g * hc.scale[0] + hc.base[s];
    pass.ops.sigmoid(w, n, w);
    for (int s = 0; s < n; ++s) w[s] += c.hc_eps;
    pass.ops.mix(v, w, n, c.hidden_size, pass.official, pass.x[i]);
    pass.ops.rms_norm(pass.x[i], pass.model.norm.data(), c.hidden_size, c.rms_norm_eps, pass.official, pass.x[i]);
  });

  // only the tokens whose logits somebody reads: each row's last, and those of rows that capture them
  std::vector<std::int64_t> wanted;
  std::vector<const float*> inputs;
  for (std::int64_t i = 0; i < pass.count(); ++i)
    if (pass.items[i].last || pass.captures(pass.items[i], Capture::logits) || pass.captures(pass.items[i], Capture::logit_margin)) {
      wanted.push_back(i);
      inputs.push_back(pass.x[i]);
    }
  const Buffer logits(pass.arena, static_cast<std::int64_t>(wanted.size()), c.vocab_size);
  pass.linear({{&pass.model.head, 0, c.vocab_size, inputs.data(), logits.rows(), static_cast<int>(wanted.size()), false}});

  pass.pool.run(static_cast<std::int64_t>(wanted.size()), 1, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t w = begin; w < end; ++w) {
      const std::int64_t i = wanted[static_cast<std::size_t>(w)];
      const Item& item = pass.items[i];
      const std::vector<int>& rows = pass.bundles[item.bundle].rows;
      if (!all_finite(logits[w], c.vocab_size)) {
        const float* bad = std::find_if_not(logits[w], logits[w] + c.vocab_size, [](float x) { return std::isfinite(x); });
        throw KernelError("logits: not finite at position " + std::to_string(item.position) + " of row " + std::to_string(rows.front()) +
                          ", token " + std::to_string(bad - logits[w]));
      }
      const TopTwo top = top_two(logits[w], c.vocab_size);
      pass.capture(i, Capture::logits, 0, logits[w], c.vocab_size);
      pass.capture(i, Capture::logit_margin, 0, &top.margin, 1);
      if (!item.last) continue;
      for (const int row : rows) {
        pass.rows[row].result->token = top.best;
        pass.rows[row].result->logits.assign(logits[w], logits[w] + c.vocab_size);
      }
    }
  });
}

}  // namespace kernels
