#include "decoder/compressor.h"

#include <vector>

namespace kernels {

void advance(const Pass& pass, const Compressor& compressor, bool indexed, std::int64_t position, const CompressorInput& input,
             Compression& state, Journal& journal) {
  const Config& c = pass.model.config();
  const int ratio = compressor.ratio, dim = compressor.dim, width = compressor.width;
  const bool overlap = width != dim;
  const int slot = static_cast<int>(position % ratio), row = slot + (overlap ? ratio : 0);
  journal.replace(state.kv[row], make_row(input.kv, width));
  journal.replace(state.score[row], make_row(input.score, width, compressor.ape.data() + static_cast<std::size_t>(slot) * width));
  if ((position + 1) % ratio != 0) return;

  // Candidates: with overlap the A half of the previous window's tokens and the B half of this one's. Rows never written have score -inf
  // and so weight zero: leaving them out adds the same bits.
  std::vector<const float*> kv, scores;
  for (std::size_t r = 0; r < state.kv.size(); ++r) {
    if (!state.kv[r]) continue;
    const int half = overlap && r >= static_cast<std::size_t>(ratio) ? dim : 0;
    kv.push_back(state.kv[r].get() + half);
    scores.push_back(state.score[r].get() + half);
  }
  std::vector<float> pooled(dim);
  float* u = pooled.data();
  pass.ops.pool(kv.data(), scores.data(), static_cast<int>(kv.size()), dim, pass.official, u);
  if (overlap)
    for (int r = 0; r < ratio; ++r) {
      journal.replace(state.kv[r], state.kv[r + ratio]);
      journal.replace(state.score[r], state.score[r + ratio]);
    }
  pass.ops.rms_norm(u, compressor.norm.data(), dim, c.rms_norm_eps, pass.official, u);
  pass.rope.rotate(pass.ops, u, dim, pass.rope.angles(position + 1 - ratio, true), false, pass.official);
  if (pass.official && indexed) {
    pass.ops.hadamard(u, dim, true);
    pass.ops.quantise_e2m1(u, dim, u);
  } else if (pass.official) {
    pass.ops.quantise_e4m3(u, dim - c.qk_rope_head_dim, 64, u);
  }
  journal.append(state.rows, make_row(u, dim));
}

}  // namespace kernels
