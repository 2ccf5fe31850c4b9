#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/infer/infer_bench.h"
#include "bench/infer/infer_result.h"
#include "bench/machine/gpu_timer.h"
#include "bench/result/sample_statistics.h"
#include "config/feature/features.h"
#include "config/load/load.h"
#include "core/memory/buffer.h"
#include "core/system/process.h"
#include "core/text/text.h"
#include "kernels/matmul_cuda.h"
#include "model/lookup/feed.h"
#include "model/predict/cached_model.h"

namespace emblem::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// A model on the GPU and its batches in host memory.
class DeviceBench {
 public:
  DeviceBench(const Context& context, const DlrmShape& shape, const InferBenchOptions& options,
              int64_t max_rows)
      : host_{.threads = context.threads},
        config_(pipeline_of(shape, max_rows, BenchTables::kStatic, options.compute)),
        layout_(layout_of(config_)),
        model_(context, config_, layout_, max_rows,
               {.size = {.share = options.cache_share}, .policy = options.cache_policy}) {}

  DevicePredictor& predictor() { return model_.predictor(); }
  const CachedModel& model() const { return model_; }
  void copy_in(const Batch& batch) { predictor().copy_in(feed_.set(batch)); }
  std::vector<float> run(const Batch& batch) {
    std::vector<float> out(static_cast<size_t>(batch.rows));
    predictor().run(host_, feed_.set(batch), out);
    return out;
  }

 private:
  Context host_;
  const config::PipelineConfig config_;
  const FeatureLayout layout_;
  CachedModel model_;
  Feed feed_{host_};
};

// Checks the probabilities against those of the same model on the CPU, up to rounding.
void check(const Context& context, const DlrmShape& shape, const InferBenchOptions& options) {
  constexpr int64_t kRows = 300;
  const DlrmShape small = shape.scaled_down(10000);
  const Batch batch = dlrm_batches({}, small, 1, kRows, options.alpha, options.seed + 1)[0];
  const int64_t piece_rows = HostPredictor::piece_rows();
  const auto config = pipeline_of(small, piece_rows, BenchTables::kStatic, DType::kF32);
  const FeatureLayout layout = layout_of(config);
  const Context host{.threads = context.threads};
  HostPredictor expected(std::make_unique<Model>(host, config, layout, piece_rows), piece_rows);
  Feed feed(host);
  std::vector<float> wanted(kRows);
  expected.run(host, feed.set(batch), wanted);
  DeviceBench bench(context, small, options, kRows);
  const double tolerance = options.compute == DType::kF32   ? 1e-4
                           : options.compute == DType::kF16 ? 5e-3
                                                            : 3e-2;
  for (int repetition = 0; repetition < 3;
       ++repetition) {  // with an empty cache, then a filled one
    const std::vector<float> found = bench.run(batch);
    for (size_t row = 0; row < found.size(); ++row) {
      if (!(std::abs(found[row] - wanted[row]) <= tolerance))
        throw Error(ErrorCode::kInternal, cat("bench infer: row ", row, " gives ", found[row],
                                              " on the GPU and ", wanted[row], " on the CPU"));
    }
  }
}

// Limits of the GPU; matrix products in the compute type.
double measure_products(const Context& context, DType type) {
  constexpr int64_t kSize = 8192;
  const auto bytes = kSize * size_of(type);
  const auto a = Buffer<char>::zeros(context, kSize, bytes),
             b = Buffer<char>::zeros(context, kSize, bytes);
  Buffer<char> c(Device::kCuda, kSize, bytes);
  const MatmulLibrary library;
  const auto product = Matmul::plan(library, {.m = kSize,
                                              .n = kSize,
                                              .k = kSize,
                                              .transpose_b = Transpose::kYes,
                                              .a = a.data(),
                                              .b = b.data(),
                                              .c = c.data(),
                                              .input_type = type,
                                              .output_type = type});
  std::vector<double> seconds = time_replays(context, 3, 10, [&] { product->run(context); });
  std::sort(seconds.begin(), seconds.end());
  return 2.0 * kSize * kSize * kSize / seconds[0];
}

struct Limits {
  double flops_per_second = 0, bytes_per_second = 0;
};

struct Timed {
  std::vector<double> seconds, end_to_end;
  DevicePredictor::CacheCounts cache;
};

DevicePredictor::CacheCounts difference(const DevicePredictor::CacheCounts& after,
                                        const DevicePredictor::CacheCounts& before) {
  return {after.lookups - before.lookups, after.missed - before.missed,
          after.distinct - before.distinct, after.absent - before.absent};
}

Timed measure_repeated(DeviceBench& bench, const Batch& batch, const InferBenchOptions& options) {
  DevicePredictor& predictor = bench.predictor();
  bench.copy_in(batch);
  for (int64_t i = 0; i < options.warmup; ++i) predictor.compute();
  const auto counts = predictor.counts();
  Timed found;
  found.seconds = time_calls(options.seconds / 2, [&] { predictor.compute(); });
  found.cache = difference(predictor.counts(), counts);
  found.end_to_end = time_calls(options.seconds / 2, [&] {
    bench.copy_in(batch);
    predictor.compute();
  });
  return found;
}

// Each batch once: only frequent keys occur again.
Timed measure_stream(DeviceBench& bench, const std::vector<Batch>& batches) {
  DevicePredictor& predictor = bench.predictor();
  bench.copy_in(batches[0]);
  predictor.compute();  // plans and captures
  const auto counts = predictor.counts();
  Timed found;
  for (size_t i = 1; i < batches.size(); ++i) {
    const auto before = Clock::now();
    bench.copy_in(batches[i]);
    predictor.wait();
    const auto copied = Clock::now();
    predictor.compute();
    const auto after = Clock::now();
    found.seconds.push_back(std::chrono::duration<double>(after - copied).count());
    found.end_to_end.push_back(std::chrono::duration<double>(after - before).count());
  }
  found.cache = difference(predictor.counts(), counts);
  return found;
}

BenchResult make_result(const std::string& name, int64_t rows, Timed found, DeviceBench& bench,
                        const DlrmShape& shape, const InferBenchOptions& options,
                        const Limits& limits) {
  std::sort(found.end_to_end.begin(), found.end_to_end.end());
  BenchResult result =
      infer_result({.name = name,
                    .rows = rows,
                    .seconds = std::move(found.seconds),
                    .settings = {{"device", std::string("cuda")},
                                 {"precision", std::string(name_of(options.compute))},
                                 {"cache_share", options.cache_share},
                                 {"cache_bytes", bench.model().cache_bytes()},
                                 {"table_bytes", bench.model().table_bytes()}}});
  const double hits = 1.0 - static_cast<double>(found.cache.missed) /
                                static_cast<double>(std::max<int64_t>(1, found.cache.lookups));
  result.metrics.push_back(
      {"end_to_end_p50", {percentile(found.end_to_end, 0.5), "s", Better::kLower}});
  result.metrics.push_back({"hit_rate", {hits, "", Better::kHigher}});
  result.ceilings = {{"gemm_flops_per_second", limits.flops_per_second},
                     {"copy_bytes_per_second", limits.bytes_per_second}};
  const double p50 = find_named(result.metrics, "latency_p50")->value;
  const double products = bench.predictor().model().graph().batch_flops_per_row() *
                          static_cast<double>(rows) / limits.flops_per_second;
  const double vectors = static_cast<double>(rows * static_cast<int64_t>(shape.table_rows.size()) *
                                             shape.dim * size_of(options.compute)) /
                         limits.bytes_per_second;
  result.shares = {{"products and rows at their ceilings", (products + vectors) / p50}};
  return result;
}

}  // namespace

std::vector<BenchResult> bench_inference(const Context& context, const DlrmShape& shape,
                                         const InferBenchOptions& options) {
  EMBLEM_REQUIRE(
      options.tables == BenchTables::kStatic,
      "bench infer: --tables dynamic is not supported with --device cuda; use --tables static");
  check(context, shape, options);
  const Limits limits{measure_products(context, options.compute), measure_device_copy(context)};
  std::vector<int64_t> sizes = options.batches.empty() ? default_batches(shape) : options.batches;
  const int64_t most = *std::max_element(sizes.begin(), sizes.end());
  DeviceBench bench(context, shape, options, std::max<int64_t>(most, 16384));
  // The cache is filled with rows of other batches of the same distribution, as in production.
  const int64_t warm_rows = 16384;
  constexpr int64_t kAtOnce = 32;
  for (int64_t done = 0; done * kAtOnce * warm_rows < options.warm_samples; ++done) {
    const auto warm = dlrm_batches(context, shape, kAtOnce, warm_rows, options.alpha,
                                   options.seed + 1000 + static_cast<uint64_t>(done));
    for (const Batch& batch : warm) {
      bench.copy_in(batch);
      bench.predictor().compute();
    }
  }
  std::vector<BenchResult> results;
  for (const int64_t rows : sizes) {
    const int64_t distinct = std::clamp<int64_t>(2'000'000 / rows, 24, 2000);
    const auto batches = dlrm_batches(context, shape, distinct, rows, options.alpha, options.seed);
    const std::string name = cat(shape.name, "-d", shape.dim, "-b", rows);
    // The stream first: afterwards all rows of its batches would be in the cache.
    Timed stream = measure_stream(bench, batches);
    results.push_back(make_result(name, rows, measure_repeated(bench, batches[0], options), bench,
                                  shape, options, limits));
    results.push_back(
        make_result(name + "-stream", rows, std::move(stream), bench, shape, options, limits));
  }
  return results;
}

}  // namespace emblem::cuda
