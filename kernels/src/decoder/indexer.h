// Which compressed rows a token attends to in a ratio-4 layer (reference section 9).
#pragma once

#include <vector>

#include "decoder/pass.h"

namespace kernels {

struct IndexSelection {
  std::vector<int> rows;          // at most index_topk, score descending, then row ascending
  float margin;                   // score gap at the cut, inf when nothing is cut
};

// query: [ih, id], rotated, turned and simulated; weights: [ih] scaled head weights; the first `count` of `rows` are looked at, since later
// tokens of the same chunk may have appended more (known failure T07).
IndexSelection select_rows(const Pass& pass, const float* query, const float* weights, const std::vector<RowPtr>& rows, int count);

// Turns heads of lin(indexer.wq_b, qr), [count, id], into queries, in place.
void prepare_queries(const Pass& pass, const Angles& angles, float* queries, std::int64_t count);

}  // namespace kernels
