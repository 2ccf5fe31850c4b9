#include "bench/infer/infer_bench.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "bench/infer/infer_result.h"
#include "bench/machine/ceilings.h"
#include "config/feature/features.h"
#include "core/system/process.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "model/lookup/feed.h"
#include "model/predict/predictor.h"

namespace emblem {
namespace {

struct Measured {
  std::vector<double> seconds;  // time of each run
  StageSeconds stages;
};

class InferBench {
 public:
  InferBench(const Context& context, const DlrmShape& shape, const InferBenchOptions& options)
      : context_(context),
        options_(options),
        piece_rows_(
            HostPredictor::piece_rows(context.threads == nullptr ? 1 : context.threads->threads())),
        config_(pipeline_of(shape, piece_rows_, options.tables, options.compute)),
        layout_(layout_of(config_)),
        predictor_(make_model(context, shape), piece_rows_) {}

  // A row must give the same result alone and in a batch.
  void check(const DlrmShape& shape) {
    const int64_t rows = piece_rows_ + 44;
    const Batch batch = dlrm_batches({}, shape, 1, rows, options_.alpha, options_.seed + 1)[0];
    std::vector<float> all(static_cast<size_t>(rows)), one(1);
    predictor_.run(context_, feed_.set(batch), all);
    const bool finite = std::all_of(all.begin(), all.end(), [](float p) { return p > 0 && p < 1; });
    for (const int64_t row : {int64_t{0}, int64_t{1}, piece_rows_ - 1, piece_rows_, rows - 1}) {
      Batch single{.rows = 1};
      single.dense.assign(batch.dense.begin() + row * 13, batch.dense.begin() + (row + 1) * 13);
      single.sparse.resize(batch.sparse.size());
      for (size_t f = 0; f < batch.sparse.size(); ++f)
        single.sparse[f].keys = {batch.sparse[f].keys[static_cast<size_t>(row)]};
      predictor_.run(context_, feed_.set(single), one);
      if (!finite || one[0] != all[static_cast<size_t>(row)]) {
        throw Error(ErrorCode::kInternal,
                    cat("bench infer: row ", row, " gives ", all[static_cast<size_t>(row)],
                        " in a batch and ", one[0], " alone"));
      }
    }
  }

  Measured measure(const std::vector<Batch>& batches) {
    std::vector<float> out(static_cast<size_t>(batches[0].rows));
    size_t next = 0;
    const auto run = [&] {
      predictor_.run(context_, feed_.set(batches[next++ % batches.size()]), out);
    };
    for (int64_t i = 0; i < options_.warmup; ++i) run();
    predictor_.model().stages() = {};
    Measured found;
    found.seconds = time_calls(options_.seconds, run);
    found.stages = predictor_.model().stages();
    return found;
  }

  double flops_per_row() { return predictor_.model().graph().batch_flops_per_row(); }

 private:
  std::unique_ptr<Model> make_model(const Context& context, const DlrmShape& shape) const {
    LayerRanges ranges;
    if (options_.compute == DType::kInt8) ranges = input_ranges(context, shape);
    auto model = std::make_unique<Model>(context, config_, layout_, piece_rows_, nullptr,
                                         ModelUse::kEvaluation);
    model->graph().set_input_ranges(ranges);
    return model;
  }

  // Ranges of the same model in fp32, which is gone before the other one takes its memory.
  LayerRanges input_ranges(const Context& context, const DlrmShape& shape) const {
    const auto config = pipeline_of(shape, piece_rows_, options_.tables, DType::kF32);
    Model model(context, config, layout_, piece_rows_, nullptr, ModelUse::kEvaluation);
    model.graph().record_inputs();
    Feed feed{context};
    for (const Batch& batch :
         dlrm_batches(context, shape, 8, piece_rows_, options_.alpha, options_.seed + 2))
      model.forward(context, feed.set(batch), Phase::kEval, 0);
    return model.graph().recorded_ranges();
  }

  const Context& context_;
  const InferBenchOptions& options_;
  const int64_t piece_rows_;
  const config::PipelineConfig config_;
  const FeatureLayout layout_;
  HostPredictor predictor_;
  Feed feed_{context_};
};

BenchResult make_result(const Context& context, const std::string& name, int64_t rows, DType type,
                        Measured found, double flops_per_row, const Ceilings& ceilings) {
  const auto runs = static_cast<double>(found.seconds.size());
  const double total = std::accumulate(found.seconds.begin(), found.seconds.end(), 0.0);
  BenchResult result = infer_result(
      {.name = name,
       .rows = rows,
       .seconds = std::move(found.seconds),
       .settings = {{"threads", int64_t{context.threads ? context.threads->threads() : 1}},
                    {"precision", std::string(name_of(type))}}});
  result.stages = {
      {"lookup", found.stages.lookup / runs},
      {"dense", found.stages.forward / runs},
      {"other", std::max(0.0, total - found.stages.lookup - found.stages.forward) / runs}};
  result.ceilings = {{"gemm_flops_per_second", ceilings.gemm_flops_per_second},
                     {"arithmetic_flops_per_second", ceilings.arithmetic_flops_per_second},
                     {"gather_bytes_per_second", ceilings.gather_bytes_per_second}};
  const double p50 = find_named(result.metrics, "latency_p50")->value;
  const double rate = flops_per_row * static_cast<double>(rows) / p50;
  result.shares = {{"gemm ceiling", rate / ceilings.gemm_flops_per_second},
                   {"arithmetic ceiling", rate / ceilings.arithmetic_flops_per_second}};
  return result;
}

std::vector<BenchResult> bench_on_cpu(const Context& context, const DlrmShape& shape,
                                      const InferBenchOptions& options) {
  const auto needed = static_cast<double>(shape.table_bytes()) * 1.2;
  const auto there = static_cast<double>(this_machine().memory_bytes);
  EMBLEM_REQUIRE(needed < there, "bench infer: the tables of ", shape.name, " take ",
                 format_bytes(needed), " of memory, but the machine has ", format_bytes(there),
                 "; use --divide-tables");
  InferBench bench(context, shape, options);
  bench.check(shape);
  const Ceilings ceilings = measure_ceilings(context, shape.dim, options.compute);
  reset_peak_resident_bytes();  // for the peak of their buffers
  std::vector<BenchResult> results;
  const std::vector<int64_t> sizes =
      options.batches.empty() ? default_batches(shape) : options.batches;
  for (const int64_t rows : sizes) {
    // At most a few hundred MB of keys.
    const int64_t distinct = std::clamp<int64_t>(1'000'000 / rows, 4, 1000);
    const auto batches = dlrm_batches(context, shape, distinct, rows, options.alpha, options.seed);
    for (const bool stream : {false, true}) {
      const std::string name =
          cat(shape.name, "-d", shape.dim, "-b", rows,
              options.compute == DType::kF32 ? "" : cat("-", name_of(options.compute)),
              stream ? "-stream" : "");
      const Measured found = bench.measure(
          stream ? batches : std::vector<Batch>(batches.begin(), batches.begin() + 1));
      results.push_back(make_result(context, name, rows, options.compute, found,
                                    bench.flops_per_row(), ceilings));
    }
  }
  return results;
}

}  // namespace

std::vector<int64_t> default_batches(const DlrmShape& shape) {
  if (shape.name.starts_with("hps-dlrm")) return {32, 256, 1024, 4096, 8192, 16384, 65536, 131072};
  return {1, 64, 1024};
}

std::vector<BenchResult> bench_inference(const Context& context, const DlrmShape& shape,
                                         const InferBenchOptions& options) {
  return dispatch(
      context.device, [&] { return bench_on_cpu(context, shape, options); },
      [&] { return cuda::bench_inference(context, shape, options); });
}

}  // namespace emblem
