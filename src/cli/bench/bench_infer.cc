#include <memory>

#include "bench/infer/infer_bench.h"
#include "cli/bench/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"

namespace emblem {
namespace {

struct BenchInferArguments : PipelineOptions, InferBenchOptions {
  std::string preset = "dlrm-kaggle", table_kind = "static", policy = "lru", json;
  int64_t dim = 16, divide_tables = 1;
};

void run(BenchInferArguments& options) {
  options.tables = options.table_kind == "dynamic" ? BenchTables::kDynamic : BenchTables::kStatic;
  options.cache_policy = options.policy == "lfu" ? CachePolicy::kLfu : CachePolicy::kLru;
  options.compute = parse_dtype(options.precision).value_or(DType::kF32);
  const DlrmShape shape =
      options.preset == "hps-dlrm" ? hps_dlrm() : kaggle_model(options.preset, options.dim);
  const Workers workers = make_workers(options, 0);
  const auto results =
      bench_inference(workers.context, shape.scaled_down(options.divide_tables), options);
  report_bench(results, options.json);
  if (options.preset == "hps-dlrm") print_published(results);  // figures of this model
}

}  // namespace

void add_infer_bench(Command& bench) {
  auto options = std::make_shared<BenchInferArguments>();
  Command command = bench.add_command(
      "infer", "Latency of a model of a preset by batch size, including lookups, without a server");
  command.choice("--preset", options->preset,
                 {"dlrm-kaggle", "deepfm-kaggle", "dcnv2-kaggle", "hps-dlrm"}, "Model and tables");
  command.list("--batch", options->batches, "N,...", "Batch sizes (default: those of the preset)");
  command.option("--dim", options->dim, "N", "Embedding dimension, except of hps-dlrm");
  command.choice("--tables", options->table_kind, {"static", "dynamic"}, "Kind of tables");
  command
      .option("--divide-tables", options->divide_tables, "N",
              "Use tables with 1/N of the rows, for machines with less memory")
      .positive();
  command.option("--alpha", options->alpha, "X", "Exponent of the keys' power law");
  command.option("--seconds", options->seconds, "SECONDS", "Timed seconds, at least");
  command
      .option(
          "--cache", options->cache_share, "SHARE",
          "On a GPU: share of the rows cached in its memory, at least 65,536 per table; all rows "
          "are in host memory")
      .range(1e-6, 1.0);
  command.choice("--cache-policy", options->policy, {"lru", "lfu"}, "Eviction policy of the cache");
  command
      .option("--warm-samples", options->warm_samples, "N",
              "On a GPU: samples looked up to warm the cache before streams are timed")
      .at_least(0);
  command.output("--json", options->json, "Also write the results to this file");
  add_device_options(command, *options, Int8::kYes);
  command.run([options] { run(*options); });
}

}  // namespace emblem
