// What a row of a step changes and captures: data only. The empty intervention is the native reference.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/config.h"
#include "decoder/schemes.h"

namespace kernels {

struct Aggregation {
  Scheme scheme = Scheme::native;
  int order = 0;                            // lexicographic rank of the router-ordered terms
  auto operator<=>(const Aggregation&) const = default;
};

struct PostMhcDelta {                       // study 2.4.2
  int layer = 0;
  std::vector<float> delta, before, after;  // [hc * D]
};

enum class Capture {
  route, route_weights, router_scores, router_margin, moe_terms, moe_shared, moe_output, post_attention, ffn_post, ffn_comb, post_mhc,
  index_rows, index_margin, logits, logit_margin
};
constexpr int kCaptures = 15;
const char* capture_name(Capture capture);
Capture parse_capture(const std::string& name);  // throws InterventionError

struct Intervention {
  std::map<int, Aggregation> aggregation;   // by layer
  std::optional<PostMhcDelta> post_mhc_delta;
  std::map<int, std::vector<int>> routes;   // by layer: k distinct expert ids
  std::vector<Capture> capture;
  std::optional<std::vector<int>> capture_layers;  // nullopt: all

  bool captures(Capture c) const;
  // Throws InterventionError naming the first thing that this geometry does not have, for a row of `tokens` tokens.
  void validate(const Config& config, int tokens) const;
};

// A captured array, row-major: floats or, for route and index_rows, integers.
struct CaptureArray {
  std::vector<std::int64_t> shape;
  std::vector<float> floats;
  std::vector<std::int32_t> integers;
};

// The empty array of a capture for T tokens and n layers.
CaptureArray make_capture(Capture capture, const Config& config, int tokens, int layers);
// Whether the capture has a layer axis, and whether it holds integers.
bool by_layer(Capture capture);
bool holds_integers(Capture capture);

}  // namespace kernels
