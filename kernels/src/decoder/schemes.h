// Ways of adding up the expert terms (study, sections 2.5 and 2.6).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/config.h"
#include "ops/ops.h"

namespace kernels {

enum class Scheme { native, P32, C, A, B };
Scheme parse_scheme(const std::string& name);  // throws InterventionError
const char* scheme_name(Scheme scheme);

constexpr int kMaxTerms = kMaxExpertsPerTok;  // 8! orders

int order_count(int k);                        // k!
std::vector<int> permutation(int rank, int k);                     // lexicographic; throws InterventionError out of range
std::vector<std::pair<int, int>> structural_classes(int k);        // rank pairs that differ only in their first two terms, by the lower rank

// terms: k pointers to [n] in router order; ids: their expert ids (only native looks at them). Schemes add in the order's sequence, native, for
// which `order` may be empty, in ascending expert id. `official` is about native alone: in fp32 numerics it rounds nothing. out [n].
void aggregate(const Ops& ops, Scheme scheme, const std::vector<int>& order, const float* const* terms, const int* ids, int k,
               const float* shared, int n, bool official, float* out);

}  // namespace kernels
