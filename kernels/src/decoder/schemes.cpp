#include "decoder/schemes.h"

#include <algorithm>
#include <numeric>

#include "checkpoint/errors.h"

namespace kernels {
namespace {
constexpr const char* kNames[] = {"native", "P32", "C", "A", "B"};
}

Scheme parse_scheme(const std::string& name) {
  for (int i = 0; i < 5; ++i)
    if (name == kNames[i]) return static_cast<Scheme>(i);
  throw InterventionError("scheme: found " + name + ", allowed: native, P32, C, A, B");
}

const char* scheme_name(Scheme scheme) { return kNames[static_cast<int>(scheme)]; }

int order_count(int k) {
  int count = 1;
  for (int i = 2; i <= k; ++i) count *= i;
  return count;
}

std::vector<int> permutation(int rank, int k) {
  if (k < 1 || k > kMaxTerms) throw InterventionError("k: found " + std::to_string(k) + ", allowed: 1 to " + std::to_string(kMaxTerms));
  if (rank < 0 || rank >= order_count(k))
    throw InterventionError("order: found " + std::to_string(rank) + ", allowed: 0 to " + std::to_string(order_count(k) - 1));
  std::vector<int> left(k), out;
  std::iota(left.begin(), left.end(), 0);
  for (int i = k - 1; i >= 0; --i) {
    const int f = order_count(i), at = rank / f;
    rank %= f;
    out.push_back(left[at]);
    left.erase(left.begin() + at);
  }
  return out;
}

std::vector<std::pair<int, int>> structural_classes(int k) {
  std::vector<std::vector<int>> all(order_count(k));
  for (int r = 0; r < order_count(k); ++r) all[r] = permutation(r, k);
  std::vector<std::pair<int, int>> out;
  for (int r = 0; r < order_count(k) && k >= 2; ++r) {
    if (all[r][0] > all[r][1]) continue;
    std::vector<int> swapped = all[r];
    std::swap(swapped[0], swapped[1]);
    out.emplace_back(r, static_cast<int>(std::lower_bound(all.begin(), all.end(), swapped) - all.begin()));
  }
  return out;
}

void aggregate(const Ops& ops, Scheme scheme, const std::vector<int>& order, const float* const* terms, const int* ids, int k,
               const float* shared, int n, bool official, float* out) {
  const float* ordered[kMaxTerms];
  if (scheme == Scheme::native) {
    int sorted[kMaxTerms];  // ids
    for (int i = 0; i < k; ++i) {
      int at = i;  // equal ones stay in their order: a hash table may name an expert twice
      for (; at > 0 && ids[i] < sorted[at - 1]; --at) sorted[at] = sorted[at - 1], ordered[at] = ordered[at - 1];
      sorted[at] = ids[i], ordered[at] = terms[i];
    }
  } else {
    for (int i = 0; i < k; ++i) ordered[i] = terms[order[static_cast<std::size_t>(i)]];
  }
  switch (scheme) {
    case Scheme::native: return ops.aggregate(ordered, k, shared, n, official, false, official, out);
    case Scheme::P32: return ops.aggregate(ordered, k, shared, n, false, false, true, out);
    case Scheme::C: return ops.aggregate(ordered, k, shared, n, true, false, true, out);
    case Scheme::A: return ops.aggregate(ordered, k, shared, n, false, true, true, out);
    case Scheme::B: return ops.aggregate(ordered, k, shared, n, true, true, true, out);
  }
}

}  // namespace kernels
