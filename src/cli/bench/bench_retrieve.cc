#include <cstdio>
#include <memory>

#include "bench/result/result_table.h"
#include "bench/retrieval/retrieve_bench.h"
#include "cli/bench/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"

namespace emblem {
namespace {

struct RetrieveOptionsOfCli : PipelineOptions {
  RetrieveOptions retrieve;
  std::string dtype = "fp32", kind = "flat", similarity = "inner_product", scan = "fastest", json;
};

void show(const BenchResult& result) {
  std::printf("%s\n", result.name.c_str());
  for (const auto& [name, measure] : result.metrics)
    std::printf("  %s: %s\n", display_name(name).c_str(),
                format_metric(measure.value, measure.unit).c_str());
  for (const auto& [name, share] : result.shares)
    std::printf("  %.1f %% %s\n", 100 * share, name.c_str());
  std::fflush(stdout);
}

void run(RetrieveOptionsOfCli& options) {
  RetrieveOptions& of = options.retrieve;
  of.dtype = *parse_dtype(options.dtype);
  of.kind = options.kind == "flat" ? IndexKind::kFlat : IndexKind::kIvfFlat;
  of.similarity = options.similarity == "cosine" ? Similarity::kCosine : Similarity::kInnerProduct;
  if (options.scan != "fastest") of.scan = parse_dtype(options.scan);
  const Workers workers = make_workers(options, 0);
  const auto results = bench_retrieve(workers.context, of, show);
  for (const auto& [name, value] : results.back().ceilings)
    std::printf("%s: %.4g\n", name.c_str(), value);
  write_json(results, options.json);
}

}  // namespace

void add_retrieve_bench(Command& bench) {
  auto options = std::make_shared<RetrieveOptionsOfCli>();
  Command command = bench.add_command(
      "retrieve",
      "Speed of searches for the best items of an index, compared with the limits of products and "
      "of memory; answers are checked first");
  RetrieveOptions& of = options->retrieve;
  command.size("--items", of.items, "Number of items", "1M");
  command.option("--dim", of.dim, "N", "Elements of a vector").positive();
  command.list("--users", of.users, "N,...", "Queries at a time, one measurement for each");
  command.option("--top-k", of.top_k, "N", "Items to find for each query").positive();
  command.choice("--dtype", options->dtype, {"fp32", "fp16", "bf16", "int8"},
                 "Type of the stored vectors");
  command.choice("--kind", options->kind, {"flat", "ivf_flat"}, "Kind of index");
  command.choice("--similarity", options->similarity, {"inner_product", "cosine"},
                 "What scores are");
  command.option("--filter", of.filter, "SHARE", "Only this share of the items may be found")
      .range(0, 1);
  command
      .option("--exclude", of.exclude, "N",
              "Items that are not found for a query, half of them its best; also timed without")
      .at_least(0);
  command.option("--lists", of.lists, "N", "Lists of an ivf_flat; 0: by the number of items")
      .at_least(0);
  command.list("--probes", of.probes, "N,...",
               "Lists that a search of an ivf_flat looks at, one measurement for each");
  command.option("--topics", of.topics, "N", "Items lie around N centers; 0: anywhere").at_least(0);
  command.option("--noise", of.noise, "X", "Standard deviation around the centers").at_least(0);
  command.choice("--scan", options->scan, {"fastest", "fp32", "bf16"},
                 "Type of the first products on a CPU; results do not depend on it");
  command.option("--seconds", of.seconds, "S", "Time of the searches of a measurement").at_least(0);
  command.option("--data", of.data, "DIR",
                 "Also write the vectors to items.f32 and queries.f32 in this folder");
  command.output("--json", options->json, "Also write the results to this file");
  add_device_options(command, *options);
  command.run([options] { run(*options); });
}

}  // namespace emblem
