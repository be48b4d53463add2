// Matrix products at given shapes through the table of each instruction set, as the decoder calls them: output rows split over threads.
//
//   products --threads N --repetitions R [--quick 1] [--cpu-clock 1]
//
// prints a JSON array of {isa, order, format, rows, cols, batch, threads, place, bytes, gfma: [..]}. order "fixed" is the product's, "freed"
// the same product without invariance (free_order.h), whose results must be close to the product's. place "cache": one matrix again and
// again; "memory": as many as no cache holds, in turn. gfma: 1e9 multiply-adds a second; bytes: weights and scales of one matrix.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>

#include "bench.h"
#include "decoder/thread_pool.h"
#include "free_order.h"
#include "ops/ops.h"

namespace {

using kernels::Format;
using kernels::Matrix;

struct Shape {
  Format format;
  int rows, cols;
};

// Reference section 1: an expert's gate and up, its down; the shared expert's; the attention's query and output.
constexpr Shape kShapes[] = {{Format::E2M1, 2048, 4096}, {Format::E2M1, 4096, 2048}, {Format::E4M3, 2048, 4096},
                             {Format::E4M3, 4096, 2048}, {Format::E4M3, 32768, 1024}, {Format::E4M3, 4096, 8192}};
constexpr int kBatches[] = {1, 8, 64};
constexpr std::size_t kScratch = std::size_t{1} << 20;  // floats: more than Ops::linear asks for at these shapes
constexpr std::size_t kBeyondCaches = std::size_t{256} << 20;

// Codes of 4,096 normal deviates: what a trained matrix looks like in this format. Uniform codes would hold far more subnormals.
std::vector<std::uint8_t> normal_codes(Format format) {
  const bool fp4 = format == Format::E2M1;
  const float* values = fp4 ? kernels::kE2M1 : kernels::kE4M3;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, fp4 ? 2.0f : 100.0f);
  std::vector<std::uint8_t> codes(4096);
  for (std::uint8_t& code : codes) {
    const float wanted = normal(random);
    for (int c = 0; c < (fp4 ? 16 : 256); ++c)  // NaN is near to nothing
      if (std::fabs(values[c] - wanted) < std::fabs(values[code] - wanted)) code = static_cast<std::uint8_t>(c);
  }
  return codes;
}

struct Weights {
  std::vector<std::uint8_t> data, scale;
  Matrix matrix;

  explicit Weights(const Shape& shape) {
    std::mt19937 random(3);
    const std::size_t rows = static_cast<std::size_t>(shape.rows), cols = static_cast<std::size_t>(shape.cols);
    const bool fp4 = shape.format == Format::E2M1;
    const std::vector<std::uint8_t> codes = normal_codes(shape.format);
    const auto draw = [&] { return codes[random() % codes.size()]; };
    data.resize(fp4 ? rows * cols / 2 : rows * cols);
    scale.resize(fp4 ? rows * (cols / 32) : (rows + 127) / 128 * ((cols + 127) / 128));
    for (std::uint8_t& byte : data) byte = fp4 ? static_cast<std::uint8_t>(draw() | draw() << 4) : draw();
    for (std::uint8_t& s : scale) s = static_cast<std::uint8_t>((fp4 ? 119 : 114) + random() % 3);
    point(shape);
  }
  Weights(const Weights& other) : data(other.data), scale(other.scale) { point({other.matrix.format, other.matrix.rows, other.matrix.cols}); }
  void point(const Shape& shape) { matrix = {shape.format, shape.rows, shape.cols, data.data(), scale.data()}; }
};

struct Inputs {
  std::vector<float> values, results;
  std::vector<const float*> x;
  std::vector<float*> y;

  Inputs(int batch, int cols, int rows) : values(static_cast<std::size_t>(batch) * cols), results(static_cast<std::size_t>(batch) * rows) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (float& v : values) v = normal(random);
    // what the decoder multiplies FP8 and FP4 weights with in official numerics
    kernels::scalar_ops()->quantise_e4m3(values.data(), static_cast<int>(values.size()), 128, values.data());
    for (int b = 0; b < batch; ++b) {
      x.push_back(values.data() + static_cast<std::size_t>(b) * cols);
      y.push_back(results.data() + static_cast<std::size_t>(b) * rows);
    }
  }
};

using Product = std::function<void(const Matrix&, int begin, int end, const Inputs&, int thread)>;

struct Way {
  const char* isa;
  const char* order;
  Product product;
};

std::vector<Way> ways(int threads) {
  std::vector<Way> out;
  for (const kernels::Ops* ops : kernels::available_ops()) {
    const auto scratch = std::make_shared<std::vector<std::vector<float>>>(static_cast<std::size_t>(threads), std::vector<float>(kScratch));
    out.push_back({ops->name, "fixed", [ops, scratch](const Matrix& w, int begin, int end, const Inputs& in, int thread) {
                     ops->linear(w, begin, end, in.x.data(), in.y.data(), static_cast<int>(in.x.size()), true,
                                 (*scratch)[static_cast<std::size_t>(thread)].data());
                   }});
  }
  for (const auto& [isa, linear] : {std::pair{"avx2", bench::free_linear_avx2()}, std::pair{"avx512", bench::free_linear_avx512()},
                                   std::pair{"avx512_bf16", bench::free_linear_avx512_bf16()}})
    if (linear != nullptr)
      out.push_back({isa, "freed", [linear](const Matrix& w, int begin, int end, const Inputs& in, int) {
                       linear(w, begin, end, in.x.data(), in.y.data(), static_cast<int>(in.x.size()));
                     }});
  return out;
}

// Blocks of 16 output rows, split evenly.
void run(kernels::ThreadPool& pool, const Way& way, const Matrix& w, const Inputs& in) {
  pool.run(w.rows, 16, [&](int thread, std::int64_t begin, std::int64_t end) {
    if (begin < end) way.product(w, static_cast<int>(begin), static_cast<int>(end), in, thread);
  });
}

void require_close(const std::vector<float>& found, const std::vector<float>& expected, const Way& way) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  if (!(difference <= 1e-4 * size)) throw std::runtime_error(std::string("products: ") + way.isa + " " + way.order + " computes something else");
}

}  // namespace

int main(int argc, char** argv) {
  bench::cpu_clock = bench::option(argc, argv, "cpu-clock", 0) != 0;
  const int most = bench::option(argc, argv, "threads", 1), repetitions = bench::option(argc, argv, "repetitions", 7);
  const double least = bench::option(argc, argv, "quick", 0) ? 0.02 : 0.1;  // seconds a sample
  const char* between = "[";
  for (const Shape& shape : kShapes) {
    std::vector<std::unique_ptr<Weights>> weights;
    weights.push_back(std::make_unique<Weights>(shape));
    const std::size_t bytes = weights.front()->data.size() + weights.front()->scale.size();
    while (bytes * weights.size() < kBeyondCaches) weights.push_back(std::make_unique<Weights>(*weights.front()));
    for (const int batch : kBatches) {
      const Inputs in(batch, shape.cols, shape.rows);
      std::vector<float> expected;
      for (int threads = 1; threads <= most; threads = threads < most ? most : most + 1) {
        kernels::ThreadPool pool(threads);
        for (const Way& way : ways(threads)) {
          const bool scalar = std::strcmp(way.isa, "scalar") == 0;
          run(pool, way, weights.front()->matrix, in);
          if (expected.empty()) expected = in.results;
          require_close(in.results, expected, way);
          for (const bool memory : {false, true}) {
            if (scalar && (memory || threads > 1 || shape.rows != 2048)) continue;  // slow, and never bound by memory
            std::size_t next = 0;
            const auto once = [&] {
              run(pool, way, weights[next]->matrix, in);
              if (memory) next = (next + 1) % weights.size();
            };
            const double start = bench::now(threads);
            once();
            const int count = std::max(1, static_cast<int>(least / (bench::now(threads) - start)));
            const auto seconds = bench::time_repeated(scalar ? 1 : repetitions, threads, [&] {
              for (int i = 0; i < count; ++i) once();
            });
            std::printf("%s\n {\"isa\": \"%s\", \"order\": \"%s\", \"format\": \"%s\", \"rows\": %d, \"cols\": %d, \"batch\": %d, \"threads\": %d, "
                        "\"place\": \"%s\", \"bytes\": %zu, \"gfma\": ",
                        between, way.isa, way.order, shape.format == Format::E2M1 ? "FP4" : "FP8", shape.rows, shape.cols, batch, threads,
                        memory ? "memory" : "cache", bytes);
            bench::print_rates(1e-9 * shape.rows * static_cast<double>(shape.cols) * batch * count, seconds);
            std::printf("}");
            between = ",";
          }
        }
      }
    }
  }
  std::printf("\n]\n");
}
