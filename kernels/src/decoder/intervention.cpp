#include "decoder/intervention.h"

#include <algorithm>

#include "checkpoint/errors.h"

namespace kernels {
namespace {

constexpr const char* kNames[kCaptures] = {"route", "route_weights", "router_scores", "router_margin", "moe_terms", "moe_shared",
                                           "moe_output", "post_attention", "ffn_post", "ffn_comb", "post_mhc", "index_rows",
                                           "index_margin", "logits", "logit_margin"};

void check_layer(const char* what, int layer, const Config& c) {
  if (layer < 0 || layer >= c.num_hidden_layers)
    throw InterventionError(std::string(what) + ": found layer " + std::to_string(layer) + ", allowed: 0 to " +
                            std::to_string(c.num_hidden_layers - 1));
}

}  // namespace

const char* capture_name(Capture capture) { return kNames[static_cast<int>(capture)]; }

Capture parse_capture(const std::string& name) {
  std::string allowed;
  for (int i = 0; i < kCaptures; ++i) {
    if (name == kNames[i]) return static_cast<Capture>(i);
    allowed += (i ? ", " : "") + std::string(kNames[i]);
  }
  throw InterventionError("capture: found " + name + ", allowed: " + allowed);
}

bool Intervention::captures(Capture c) const { return std::find(capture.begin(), capture.end(), c) != capture.end(); }

void Intervention::validate(const Config& c, int tokens) const {
  const int k = c.num_experts_per_tok;
  for (const auto& [layer, how] : aggregation) {
    check_layer("aggregation", layer, c);
    const int orders = how.scheme == Scheme::native ? 1 : order_count(k);
    if (how.order < 0 || how.order >= orders)
      throw InterventionError("aggregation: layer " + std::to_string(layer) + ": found order " + std::to_string(how.order) +
                              ", allowed: 0 to " + std::to_string(orders - 1) + " for scheme " + scheme_name(how.scheme));
  }
  for (const auto& [layer, ids] : routes) {
    check_layer("routes", layer, c);
    std::vector<int> sorted = ids;
    std::sort(sorted.begin(), sorted.end());
    const bool distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    if (static_cast<int>(ids.size()) != k || !distinct || sorted.front() < 0 || sorted.back() >= c.n_routed_experts)
      throw InterventionError("routes: layer " + std::to_string(layer) + ": allowed: " + std::to_string(k) + " distinct expert ids 0 to " +
                              std::to_string(c.n_routed_experts - 1));
  }
  if (post_mhc_delta) {
    check_layer("post_mhc_delta", post_mhc_delta->layer, c);
    const std::size_t size = static_cast<std::size_t>(c.hc_mult) * c.hidden_size;
    if (post_mhc_delta->delta.size() != size || post_mhc_delta->before.size() != size || post_mhc_delta->after.size() != size)
      throw InterventionError("post_mhc_delta: delta, before and after must each have " + std::to_string(size) + " values");
    if (tokens != 1) throw InterventionError("post_mhc_delta: found " + std::to_string(tokens) + " tokens in the row, allowed: 1");
  }
  if (capture_layers)
    for (const int layer : *capture_layers) check_layer("capture_layers", layer, c);
}

bool by_layer(Capture capture) { return capture != Capture::logits && capture != Capture::logit_margin; }

bool holds_integers(Capture capture) { return capture == Capture::route || capture == Capture::index_rows; }

CaptureArray make_capture(Capture capture, const Config& c, int tokens, int layers) {
  CaptureArray out;
  out.shape = {tokens};
  if (by_layer(capture)) out.shape.push_back(layers);
  const auto tail = [&](std::initializer_list<std::int64_t> extents) { out.shape.insert(out.shape.end(), extents); };
  switch (capture) {
    case Capture::route: case Capture::route_weights: tail({c.num_experts_per_tok}); break;
    case Capture::router_scores: tail({c.n_routed_experts}); break;
    case Capture::moe_terms: tail({c.num_experts_per_tok, c.hidden_size}); break;
    case Capture::moe_shared: case Capture::moe_output: tail({c.hidden_size}); break;
    case Capture::post_attention: case Capture::post_mhc: tail({c.hc_mult, c.hidden_size}); break;
    case Capture::ffn_post: tail({c.hc_mult}); break;
    case Capture::ffn_comb: tail({c.hc_mult, c.hc_mult}); break;
    case Capture::index_rows: tail({c.index_topk}); break;
    case Capture::logits: tail({c.vocab_size}); break;
    case Capture::router_margin: case Capture::index_margin: case Capture::logit_margin: break;
  }
  std::size_t size = 1;
  for (const std::int64_t extent : out.shape) size *= static_cast<std::size_t>(extent);
  if (holds_integers(capture)) out.integers.assign(size, -1);
  else out.floats.assign(size, 0.0f);
  return out;
}

}  // namespace kernels
