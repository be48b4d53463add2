#include "ops/ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "check.h"
#include "decoder/bf16.h"
#include "decoder/scalar_math.h"

using kernels::Format;
using kernels::Matrix;
using kernels::Ops;

namespace {

// Values over many binades, signed zeros and subnormals among them.
std::vector<float> values(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-8, 8);
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& v : out) v = std::ldexp(normal(random), exponent(random));
  out[0] = 0.0f;
  out[1] = -0.0f;
  out[2] = std::numeric_limits<float>::denorm_min();
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

// Runs `body(ops, out)` with every table and requires equal bits.
template <class Body> void agree(int n, Body body) {
  std::vector<float> expected;
  for (const Ops* ops : kernels::available_ops()) {
    std::vector<float> out(static_cast<std::size_t>(n), -1.0f);
    body(*ops, out.data());
    if (expected.empty()) expected = out;
    else if (!same_bits(out, expected)) throw check::Failure(std::string(ops->name) + " differs from scalar");
  }
}

struct Weights {
  Matrix matrix;
  std::vector<std::uint8_t> data, scale;
};

// what BF16 keeps of FP32
std::vector<std::uint8_t> upper_halves(const std::vector<float>& values) {
  std::vector<std::uint8_t> out;
  for (const float v : values) {
    std::uint32_t u;
    std::memcpy(&u, &v, 4);
    out.push_back(static_cast<std::uint8_t>(u >> 16));
    out.push_back(static_cast<std::uint8_t>(u >> 24));
  }
  return out;
}

Weights weights(Format format, int rows, int cols) {
  Weights w;
  std::mt19937 random(7);
  const std::size_t count = static_cast<std::size_t>(rows) * cols;
  if (format == Format::F32) {
    const std::vector<float> v = values(static_cast<int>(count), 9);
    w.data.resize(4 * count);
    std::memcpy(w.data.data(), v.data(), w.data.size());
  } else if (format == Format::BF16) {
    w.data = upper_halves(values(static_cast<int>(count), 9));
  } else {
    w.data.resize(format == Format::E4M3 ? count : count / 2);
    for (std::uint8_t& b : w.data) {
      b = static_cast<std::uint8_t>(random());
      if (format == Format::E4M3 && (b & 0x7F) == 0x7F) b = 0x7E;  // not NaN
    }
    w.scale.resize(format == Format::E4M3 ? static_cast<std::size_t>((rows + 127) / 128) * ((cols + 127) / 128) : count / 32);
    for (std::uint8_t& b : w.scale) b = static_cast<std::uint8_t>(120 + random() % 12);
    w.scale[0] = 0;  // 2^-127
  }
  w.matrix = {format, rows, cols, w.data.data(), w.scale.empty() ? nullptr : w.scale.data()};
  return w;
}

}  // namespace

TEST(linear_of_any_format_batch_and_split_gives_the_scalar_bits) {
  const int rows = 133, cols = 160;  // ragged blocks of 128, a last block of rows shorter than four
  for (const Format format : {Format::F32, Format::BF16, Format::E4M3, Format::E2M1}) {
    const Weights w = weights(format, rows, cols);
    for (const int batch : {1, 2, 3, 4, 5, 8, 11}) {
      std::vector<float> x;
      for (int b = 0; b < batch; ++b) {
        const std::vector<float> one = values(cols, 100 + static_cast<unsigned>(b));
        x.insert(x.end(), one.begin(), one.end());
      }
      agree(rows * batch, [&](const Ops& ops, float* out) {
        std::vector<const float*> in;
        std::vector<float*> y;
        for (int b = 0; b < batch; ++b) {
          in.push_back(x.data() + b * cols);
          y.push_back(out + b * rows);
        }
        std::vector<float> scratch(kernels::linear_scratch(cols));
        ops.linear(w.matrix, 0, 60, in.data(), y.data(), batch, true, scratch.data());
        ops.linear(w.matrix, 60, rows, in.data(), y.data(), batch, true, scratch.data());
      });
      // one row at a time gives what the batch gave
      std::vector<float> together(static_cast<std::size_t>(rows) * batch), alone(together.size());
      std::vector<float> scratch(kernels::linear_scratch(cols));
      for (int b = 0; b < batch; ++b) {
        const float* in[] = {x.data() + b * cols};
        float* y[] = {alone.data() + b * rows};
        kernels::scalar_ops()->linear(w.matrix, 0, rows, in, y, 1, false, scratch.data());
      }
      std::vector<const float*> in;
      std::vector<float*> y;
      for (int b = 0; b < batch; ++b) {
        in.push_back(x.data() + b * cols);
        y.push_back(together.data() + b * rows);
      }
      kernels::scalar_ops()->linear(w.matrix, 0, rows, in.data(), y.data(), batch, false, scratch.data());
      CHECK(same_bits(together, alone));
    }
  }
}

namespace {

// W x for `batch` vectors by every table, all rows and then a range that starts and ends inside the blocks.
void linear_agrees(const Weights& w, const std::vector<float>& x, int batch) {
  const int rows = w.matrix.rows, cols = w.matrix.cols;
  for (const bool round : {false, true})
    agree(2 * rows * batch, [&](const Ops& ops, float* out) {
      std::vector<const float*> in;
      std::vector<float*> whole, part;
      for (int b = 0; b < batch; ++b) {
        in.push_back(x.data() + static_cast<std::size_t>(b) * cols);
        whole.push_back(out + b * rows);
        part.push_back(out + (batch + b) * rows);
      }
      std::vector<float> scratch(kernels::linear_scratch(cols));
      ops.linear(w.matrix, 0, rows, in.data(), whole.data(), batch, round, scratch.data());
      ops.linear(w.matrix, 3, rows - 2, in.data(), part.data(), batch, round, scratch.data());
      for (int i = 0; i < 2 * rows * batch; ++i)
        if (std::isnan(out[i])) out[i] = std::numeric_limits<float>::quiet_NaN();  // one NaN is as good as another: none enters a state
    });
}

}  // namespace

TEST(linear_of_long_rows_and_large_batches_gives_the_scalar_bits) {
  for (const Format format : {Format::F32, Format::BF16, Format::E4M3, Format::E2M1})
    for (const int cols : {32, 256, 288, 544, 1056}) {
      const Weights w = weights(format, 37, cols);
      for (const int batch : {1, 3, 4, 7, 64, 67}) linear_agrees(w, values(cols * batch, static_cast<unsigned>(batch)), batch);
    }
}

// What the vector versions do not carry through their short cuts: NaN codes, scales whose products leave the normal numbers, and vectors whose
// scaled values would not be exact.
TEST(linear_of_extreme_weights_scales_and_vectors_gives_the_scalar_bits) {
  const int rows = 130, cols = 320;
  for (const Format format : {Format::E4M3, Format::E2M1})
    for (const int code : {0, 1, 9, 10, 130, 131, 134, 135, 246, 254, 255})
      for (const bool everywhere : {false, true}) {
        Weights w = weights(format, rows, cols);
        if (everywhere) std::fill(w.scale.begin(), w.scale.end(), static_cast<std::uint8_t>(code));
        else w.scale[w.scale.size() / 2] = static_cast<std::uint8_t>(code);
        for (const int batch : {1, 5}) linear_agrees(w, values(cols * batch, 7), batch);
      }
  Weights w = weights(Format::E4M3, rows, cols);
  w.data[static_cast<std::size_t>(40 * cols + 17)] = 0xFF;
  w.data[static_cast<std::size_t>(129 * cols + 319)] = 0x7F;
  for (const int batch : {1, 5}) {
    std::vector<float> x = values(cols * batch, 8);
    linear_agrees(w, x, batch);
    x[100] = std::numeric_limits<float>::infinity();
    x[200] = std::numeric_limits<float>::max();
    linear_agrees(w, x, batch);
  }
}

namespace {

// BF16 values of either sign between 2^-50 and 2^51, or near 1, zeros among them.
std::vector<float> bf16_values(int n, unsigned seed, bool wide) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> exponent(wide ? -50 : -3, wide ? 50 : 3);
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& v : out) {
    const float mantissa = 1.0f + static_cast<float>(random() % 128) / 128.0f;
    v = random() % 16 == 0 ? 0.0f : std::ldexp(mantissa, exponent(random));
    if (random() % 2) v = -v;
  }
  return out;
}

Weights bf16_weights(int rows, int cols, const std::vector<float>& values) {
  Weights w = weights(Format::BF16, rows, cols);
  std::ranges::copy(upper_halves(values), w.data.begin());  // in place: the matrix points there
  return w;
}

// Whether W x is promised by BF16 pairs; true where there are none on this CPU.
bool by_pairs(const Weights& w, const std::vector<float>& x, int batch) {
  if (kernels::avx512_bf16_ops() == nullptr) return true;
  const int rows = w.matrix.rows, cols = w.matrix.cols;
  std::vector<float> out(static_cast<std::size_t>(rows) * batch), scratch(kernels::linear_scratch(cols));
  std::vector<const float*> in;
  std::vector<float*> y;
  for (int b = 0; b < batch; ++b) in.push_back(x.data() + b * cols), y.push_back(out.data() + b * rows);
  return kernels::linear_by_bf16_pairs(w.matrix, 0, rows, in.data(), y.data(), batch, false, scratch.data());
}

}  // namespace

TEST(linear_by_bf16_pairs_gives_the_scalar_bits_and_does_not_fall_back) {
  for (const int cols : {64, 128, 320, 576, 1088})
    for (const Format format : {Format::BF16, Format::E4M3, Format::E2M1})
      for (const bool wide : {false, true}) {
        Weights w = format == Format::BF16 ? bf16_weights(133, cols, bf16_values(133 * cols, 5, wide)) : weights(format, 133, cols);
        std::mt19937 random(3);
        for (std::uint8_t& code : w.scale) code = static_cast<std::uint8_t>(wide ? 86 + random() % 83 : 120 + random() % 12);  // 2^-41 to 2^41
        for (const int batch : {1, 2, 3, 4, 7, 64, 67}) {
          const std::vector<float> x = bf16_values(cols * batch, static_cast<unsigned>(batch), wide);
          CHECK(by_pairs(w, x, batch));
          linear_agrees(w, x, batch);
        }
      }
}

// Every code of the formats, one a row, so that a sum is one product.
TEST(linear_by_bf16_pairs_decodes_every_code) {
  for (const Format format : {Format::E4M3, Format::E2M1}) {
    const int codes = format == Format::E4M3 ? 256 : 16, cols = 64;
    for (int column = 0; column < cols; ++column) {
      Weights w = weights(format, codes, cols);
      std::fill(w.scale.begin(), w.scale.end(), std::uint8_t{127});
      std::fill(w.data.begin(), w.data.end(), std::uint8_t{0});
      for (int code = 0; code < codes; ++code)
        if (format == Format::E4M3) w.data[static_cast<std::size_t>(code * cols + column)] = static_cast<std::uint8_t>((code & 0x7F) == 0x7F ? 0 : code);
        else w.data[static_cast<std::size_t>((code * cols + column) / 2)] = static_cast<std::uint8_t>(code << (column % 2 * 4));
      std::vector<float> x(static_cast<std::size_t>(4 * cols), 1.0f);
      for (const int batch : {1, 4}) {
        CHECK(by_pairs(w, x, batch));
        linear_agrees(w, x, batch);
      }
    }
  }
}

// What can't be promised is left to the other kernels: each of these alone, in one place of many.
TEST(linear_by_bf16_pairs_knows_what_it_cannot_promise) {
  const bool present = kernels::avx512_bf16_ops() != nullptr;
  const int rows = 133, cols = 128;
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const int batch : {1, 5}) {
    const std::size_t place = static_cast<std::size_t>((batch - 1) * cols + 77);
    const std::vector<float> x = bf16_values(cols * batch, 4, false), w = bf16_values(rows * cols, 5, false);
    const auto refused = [&](const Weights& weights, const std::vector<float>& vectors, float bad) {
      if (present && by_pairs(weights, vectors, batch))
        throw check::Failure("not refused: " + std::to_string(bad) + " of format " + std::to_string(static_cast<int>(weights.matrix.format)));
      linear_agrees(weights, vectors, batch);
    };
    for (const Format format : {Format::BF16, Format::E4M3, Format::E2M1}) {
      Weights good = format == Format::BF16 ? bf16_weights(rows, cols, w) : weights(format, rows, cols);
      if (!good.scale.empty()) good.scale[0] = 127;
      CHECK(by_pairs(good, x, batch));
      for (const float bad : {1.001f, std::ldexp(1.9921875f, -51), -std::ldexp(1.0f, 51), std::numeric_limits<float>::denorm_min(), inf, -inf, nan}) {
        std::vector<float> vectors = x;
        vectors[place] = bad;
        refused(good, vectors, bad);
      }
      for (const int code : {0, 60, 200, 254, 255})
        if (!good.scale.empty()) {
          Weights scaled = weights(format, rows, cols);
          scaled.scale[0] = 127;
          scaled.scale.back() = static_cast<std::uint8_t>(code);
          refused(scaled, x, static_cast<float>(code));
        }
    }
    for (const float bad : {std::ldexp(1.9921875f, -51), kernels::round_bf16(1e-40f), std::ldexp(1.0f, 127), -inf, nan}) {
      std::vector<float> values = w, vectors = x;
      values[static_cast<std::size_t>(131 * cols + 77)] = bad;
      for (int b = 0; b < batch; ++b) vectors[static_cast<std::size_t>(b * cols + 77)] = 4.0f;
      refused(bf16_weights(rows, cols, values), vectors, bad);
    }
    for (const std::uint8_t code : {0x7F, 0xFF}) {
      Weights nans = weights(Format::E4M3, rows, cols);
      nans.scale[0] = 127;
      nans.data[static_cast<std::size_t>(131 * cols + 77)] = code;
      refused(nans, x, static_cast<float>(code));
    }
  }
  Weights narrow = weights(Format::BF16, 5, 96);  // columns that do not come in steps of 64
  CHECK(!present || !by_pairs(narrow, bf16_values(96, 1, false), 1));
}

TEST(linear_is_the_sum_of_products) {
  const Weights w = weights(Format::BF16, 8, 64);
  const std::vector<float> x = values(64, 3);
  std::vector<float> y(8), scratch(kernels::linear_scratch(64));
  const float* in[] = {x.data()};
  float* out[] = {y.data()};
  kernels::ops().linear(w.matrix, 0, 8, in, out, 1, false, scratch.data());
  for (int r = 0; r < 8; ++r) {
    double sum = 0, size = 0;
    for (int k = 0; k < 64; ++k) {
      std::uint16_t h;
      std::memcpy(&h, w.data.data() + 2 * (r * 64 + k), 2);
      const std::uint32_t u = static_cast<std::uint32_t>(h) << 16;
      float v;
      std::memcpy(&v, &u, 4);
      sum += static_cast<double>(v) * x[k];
      size += std::fabs(static_cast<double>(v) * x[k]);
    }
    CHECK(std::fabs(y[r] - sum) <= 1e-6 * size);
  }
}

TEST(elementwise_operations_give_the_scalar_bits) {
  const int n = 512;
  const std::vector<float> x = values(n, 1), w = values(n, 2);
  agree(n, [&](const Ops& ops, float* out) { ops.rms_norm(x.data(), w.data(), n, 1e-6f, true, out); });
  agree(n, [&](const Ops& ops, float* out) { std::memcpy(out, x.data(), 4 * n), ops.head_norm(out, n, 1e-6f, true); });
  agree(n, [&](const Ops& ops, float* out) { std::memcpy(out, x.data(), 4 * n), ops.head_norm(out, n, 1e-6f, false); });
  agree(n, [&](const Ops& ops, float* out) { ops.quantise_e4m3(x.data(), n, 128, out); });
  agree(448, [&](const Ops& ops, float* out) { ops.quantise_e4m3(x.data(), 448, 64, out); });
  agree(n, [&](const Ops& ops, float* out) { ops.quantise_e2m1(x.data(), n, out); });
  agree(n, [&](const Ops& ops, float* out) { std::memcpy(out, x.data(), 4 * n), ops.hadamard(out, n, true); });
  for (const int width : {16, 32, 64, 128})
    agree(width, [&](const Ops& ops, float* out) { std::memcpy(out, x.data(), 4 * static_cast<std::size_t>(width)), ops.hadamard(out, width, false); });
  for (const bool inverse : {false, true})
    for (const bool round : {false, true})
      agree(64, [&](const Ops& ops, float* out) {
        std::memcpy(out, x.data(), 4 * 64);
        ops.rotate(out, w.data(), w.data() + 64, 64, inverse, round);
      });
  agree(n, [&](const Ops& ops, float* out) { ops.swiglu(x.data(), w.data(), n, 10.0f, 0.3f, true, out); });
  agree(n, [&](const Ops& ops, float* out) { out[0] = ops.dot(x.data(), w.data(), n); });
}

TEST(attention_and_pooling_give_the_scalar_bits) {
  const int hd = 64, count = 150;
  std::vector<std::vector<float>> rows;
  std::vector<const float*> keys;
  for (int i = 0; i < count; ++i) rows.push_back(values(hd, 50 + static_cast<unsigned>(i)));
  for (const auto& row : rows) keys.push_back(row.data());
  const std::vector<float> q = values(7 * hd, 4), sinks = {0.5f, -1.0f, 0.0f, 3.0f, 0.25f, -8.0f, 1.0f};
  for (const int heads : {1, 4, 7})
    for (const int window : {1, 40, 64, 128})
      for (const int total : {window, window + 1, window + 22})
        agree(heads * hd, [&](const Ops& ops, float* out) {
          float score[64 * kernels::kMostHeads];
          ops.attend(q.data(), keys.data(), window, 128, total, hd, heads, sinks.data(), true, score, out);
        });
  for (const int wide : {16, 64, 144, 192}) {  // dims that do and do not fill the chains side by side
    std::vector<std::vector<float>> long_rows;
    std::vector<const float*> long_keys;
    for (int i = 0; i < 70; ++i) long_rows.push_back(values(wide, 300 + static_cast<unsigned>(i)));
    for (const auto& row : long_rows) long_keys.push_back(row.data());
    const std::vector<float> query = values(6 * wide, 5);
    agree(6 * wide, [&](const Ops& ops, float* out) {
      float score[64 * kernels::kMostHeads];
      ops.attend(query.data(), long_keys.data(), 70, 128, 70, wide, 6, sinks.data(), false, score, out);
    });
    for (const int heads : {1, 4, 6})
      for (const int count : {1, 16, 23, 64, 70})
        for (const bool round : {false, true})
          agree((count + 15) / 16 * 16, [&](const Ops& ops, float* out) {
            ops.index_scores(query.data(), sinks.data(), heads, long_keys.data(), count, wide, round, out);
            std::fill(out + count, out + (count + 15) / 16 * 16, 0.0f);  // room only
          });
  }
  agree(hd, [&](const Ops& ops, float* out) { ops.pool(keys.data(), keys.data() + 20, 8, hd, true, out); });
}

TEST(index_scores_sum_what_is_positive_over_heads) {
  const int n = 32, heads = 5, count = 3;
  const std::vector<float> q = values(heads * n, 21), keys = values(count * n, 22), w = {1, -2, 0.5f, 3, -0.25f};
  std::vector<const float*> rows;
  for (int t = 0; t < count; ++t) rows.push_back(keys.data() + t * n);
  std::vector<float> found(16);
  kernels::ops().index_scores(q.data(), w.data(), heads, rows.data(), count, n, true, found.data());
  for (int t = 0; t < count; ++t) {
    float sum = 0;
    for (int h = 0; h < heads; ++h) {
      const float dot = kernels::round_bf16(kernels::ops().dot(q.data() + h * n, rows[t], n));
      sum += kernels::round_bf16(std::max(dot, 0.0f) * w[h]);
    }
    CHECK_EQ(found[t], kernels::round_bf16(sum));
  }
}

TEST(gates_are_accurate_and_hold_beyond_their_range) {
  for (const int n : {1, 7, 8, 33}) {
    std::vector<float> x(n), sigmoid(n), softplus(n);
    for (int i = 0; i < n; ++i) x[i] = -20.0f + 40.0f * static_cast<float>(i) / static_cast<float>(n);
    for (const Ops* ops : kernels::available_ops()) {
      ops->sigmoid(x.data(), n, sigmoid.data());
      ops->sqrt_softplus(x.data(), n, softplus.data());
      for (int i = 0; i < n; ++i) {  // in double, rounded once: the library agrees where it isn't at a rounding boundary
        CHECK(std::fabs(sigmoid[i] / (1 / (1 + std::exp(-static_cast<double>(x[i])))) - 1) < 6.1e-8);
        CHECK(std::fabs(softplus[i] / std::sqrt(std::log1p(std::exp(static_cast<double>(x[i])))) - 1) < 6.1e-8);
      }
    }
    agree(n, [&](const Ops& ops, float* out) { ops.sigmoid(x.data(), n, out); });
    agree(n, [&](const Ops& ops, float* out) { ops.sqrt_softplus(x.data(), n, out); });
  }
  std::vector<float> far = {0.0f, -0.0f, 100.0f, -100.0f, 1e30f, -1e30f, HUGE_VALF, -HUGE_VALF, NAN}, out(far.size());
  const int n = static_cast<int>(far.size());
  kernels::ops().sigmoid(far.data(), n, out.data());
  CHECK(out[0] == 0.5f && out[1] == 0.5f && out[2] == 1.0f && out[4] == 1.0f && out[6] == 1.0f);
  CHECK(out[3] < 1e-40f && out[5] == 0.0f && out[7] == 0.0f && std::isnan(out[8]));
  kernels::ops().sqrt_softplus(far.data(), n, out.data());
  CHECK(out[0] == out[1] && out[2] == 10.0f && out[4] == std::sqrt(1e30f) && out[6] == HUGE_VALF);
  CHECK(out[5] == 0.0f && out[7] == 0.0f && std::isnan(out[8]));
}

namespace {

// Twenty iterations over a matrix [n, n], eps 1e-6.
std::vector<float> sinkhorn_by_hand(std::vector<float> x, int n) {
  float* C = x.data();
  for (int i = 0; i < n; ++i) {
    const float top = *std::max_element(C + i * n, C + i * n + n);
    float sum = 0;
    for (int j = 0; j < n; ++j) sum += C[i * n + j] = static_cast<float>(kernels::exp_double(static_cast<double>(C[i * n + j]) - top));
    for (int j = 0; j < n; ++j) C[i * n + j] = C[i * n + j] / sum + 1e-6f;
  }
  const auto normalise = [&](int out, int in) {
    for (int i = 0; i < n; ++i) {
      float sum = 0;
      for (int j = 0; j < n; ++j) sum += C[i * out + j * in];
      for (int j = 0; j < n; ++j) C[i * out + j * in] /= sum + 1e-6f;
    }
  };
  for (int k = 0; k < 20; ++k) {
    if (k > 0) normalise(n, 1);
    normalise(1, n);
  }
  return x;
}

}  // namespace

TEST(sinkhorn_makes_sums_of_one_by_its_written_order) {
  for (int n = 1; n <= 8; ++n) {
    // of seven matrices, so that some are taken side by side and some alone
    std::vector<std::vector<float>> given, expected;
    for (unsigned seed = 0; seed < 7; ++seed) {
      const std::vector<float> x = values(n * n + 3, 60 + 10 * seed + static_cast<unsigned>(n));
      given.emplace_back(x.begin() + 3, x.end());
    }
    for (const std::vector<float>& x : given) expected.push_back(sinkhorn_by_hand(x, n));
    for (const Ops* ops : kernels::available_ops()) {
      std::vector<std::vector<float>> found = given;
      std::vector<float*> C;
      for (std::vector<float>& x : found) C.push_back(x.data());
      ops->sinkhorn(C.data(), 7, n, 20, 1e-6f);
      for (std::size_t m = 0; m < 7; ++m) CHECK(same_bits(found[m], expected[m]));
    }
  }
}

TEST(quantised_values_are_on_the_grid_and_nearest) {
  const int n = 256;
  std::vector<float> x = values(n, 11), out(n);
  kernels::ops().quantise_e4m3(x.data(), n, n, out.data());
  float top = 0;
  for (const float v : x) top = std::max(top, std::fabs(v));
  const float scale = std::exp2(std::ceil(std::log2(top / 448)));
  for (int i = 0; i < n; ++i) {
    double best = HUGE_VAL;
    for (const float code : kernels::kE4M3)
      if (!std::isnan(code)) best = std::min(best, std::fabs(static_cast<double>(code) * scale - x[i]));
    CHECK_EQ(std::fabs(static_cast<double>(out[i]) - x[i]), best);
  }
}

TEST(quantisation_ties_go_to_the_even_code) {
  // reference section 3: E2M1 with scale 1
  std::vector<float> x(32, 0.0f), out(32);
  const float in[] = {6, .25f, .75f, 1.75f, 2.5f, 3.5f, 5, -.25f, -5}, expected[] = {6, 0, 1, 2, 2, 4, 4, -0.0f, -4};
  std::memcpy(x.data(), in, sizeof in);
  kernels::ops().quantise_e2m1(x.data(), 32, out.data());
  CHECK(std::memcmp(out.data(), expected, sizeof expected) == 0);
}

TEST(what_is_not_finite_stays_so_with_every_instruction_set) {
  for (int lane = 0; lane < 64; ++lane)
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x = values(64, 5);
      x[static_cast<std::size_t>(lane)] = bad;
      for (const Ops* ops : kernels::available_ops()) {
        std::vector<float> eight(64), four(64);
        ops->quantise_e4m3(x.data(), 64, 64, eight.data());
        ops->quantise_e2m1(x.data(), 64, four.data());
        CHECK(std::isnan(eight[static_cast<std::size_t>(lane)]) && std::isnan(four[static_cast<std::size_t>(lane)]));
      }
    }
}

TEST(bf16_rounds_to_nearest_even_and_truncates_what_is_not_finite) {
  const auto from = [](std::uint32_t u) {
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  };
  const auto bits = [](float f) {
    std::uint32_t u;
    std::memcpy(&u, &f, 4);
    return u;
  };
  CHECK_EQ(bits(kernels::round_bf16(from(0x3F808000))), 0x3F800000u);
  CHECK_EQ(bits(kernels::round_bf16(from(0x3F818000))), 0x3F820000u);
  CHECK_EQ(bits(kernels::round_bf16(from(0x3F808001))), 0x3F810000u);
  CHECK_EQ(bits(kernels::round_bf16(from(0x7F800000))), 0x7F800000u);
  CHECK_EQ(bits(kernels::round_bf16(from(0x7FC00001))), 0x7FC00000u);
  CHECK_EQ(bits(kernels::round_bf16(from(0x7F7FFFFF))), 0x7F800000u);
}
