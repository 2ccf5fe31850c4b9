#include <CLI/CLI.hpp>
#include <memory>

#include "bench/infer/infer_bench.h"
#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"

namespace emblem {
namespace {

struct Options : PipelineOptions, InferBenchOptions {
  std::string preset = "dlrm-kaggle", table_kind = "static", policy = "lru", json;
  int64_t dim = 16, divide_tables = 1;
};

void run(Options& options) {
  options.tables = options.table_kind == "dynamic" ? BenchTables::kDynamic : BenchTables::kStatic;
  options.cache_policy = options.policy == "lfu" ? CachePolicy::kLfu : CachePolicy::kLru;
  EMBLEM_REQUIRE(
      options.precision.empty() || options.precision == "fp32" || options.device == "cuda",
      "--precision ", options.precision, " needs --device cuda; a CPU computes in fp32");
  options.compute = options.precision == "fp16"   ? DType::kF16
                    : options.precision == "bf16" ? DType::kBf16
                                                  : DType::kF32;
  const DlrmShape shape = options.preset == "hps-dlrm" ? hps_dlrm() : kaggle_dlrm(options.dim);
  const Workers workers = make_workers(options, 0);
  const auto results =
      bench_inference(workers.context, shape.scaled_down(options.divide_tables), options);
  report_bench(results, options.json);
  if (options.preset == "hps-dlrm") print_published(results);  // of this model
}

}  // namespace

void add_infer_bench(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "infer", "Latency of a trained model by batch size, lookup included, without a server");
  command->add_option("--preset", options->preset, "Model and tables")
      ->check(CLI::IsMember({"dlrm-kaggle", "hps-dlrm"}))
      ->capture_default_str();
  command->add_option("--batch", options->batches, "Batch sizes (default: those of the preset)")
      ->delimiter(',');
  command->add_option("--dim", options->dim, "Embedding dimension of dlrm-kaggle")
      ->capture_default_str();
  command->add_option("--tables", options->table_kind, "Kind of tables")
      ->check(CLI::IsMember({"static", "dynamic"}))
      ->capture_default_str();
  command
      ->add_option("--divide-tables", options->divide_tables,
                   "Use tables with this fraction of the rows: for machines with less memory")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--alpha", options->alpha, "Exponent of the keys' power law")
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Timed seconds, at least")
      ->capture_default_str();
  command
      ->add_option("--cache", options->cache_share,
                   "On a GPU: the share of the rows in its memory, 65,536 of a table at least; all "
                   "are in host memory")
      ->check(CLI::Range(1e-6, 1.0))
      ->capture_default_str();
  command->add_option("--cache-policy", options->policy, "Which rows leave the cache")
      ->check(CLI::IsMember({"lru", "lfu"}))
      ->capture_default_str();
  command
      ->add_option("--warm-samples", options->warm_samples,
                   "On a GPU: samples that are looked up before streams are timed")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--json", options->json, "Also write the results to this file");
  add_device_options(*command, *options);
  command->callback([options] { run(*options); });
}

}  // namespace emblem
