#include <cstdio>
#include <memory>

#include "bench/collection/collection_bench.h"
#include "bench/result/result_table.h"
#include "cli/bench/bench_report.h"
#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "cli/rank_body.h"
#include "cli/rank_options.h"
#include "core/math/hash.h"
#include "core/text/text.h"

namespace emblem {
namespace {

struct CollectionOptionsOfCli : PipelineOptions {
  CollectionOptions collection;
  RankOptions launched;
  int ranks = 0;
  int hosts = 1;
  std::string host_dedup = "none";
  int rank_of = 0;
  double link = 370;  // GB/s
  std::string kind = "static";
  bool no_dedup = false;
  std::string json;
};

double setting(const BenchResult& result, const char* name) {
  return std::get<double>(*find_named(result.settings, name));
}

bool is_published_work(const CollectionOptions& of) {
  const CollectionOptions published;
  return of.batch == published.batch && of.keys == published.keys && of.dim == published.dim &&
         of.divide_tables == published.divide_tables;
}

void print(const BenchResult& result, const CollectionOptionsOfCli& options) {
  const auto ms = [](double seconds) { return format_metric(seconds, "s"); };
  const double iteration = find_named(result.metrics, "iteration_seconds")->value;
  const double forward = find_named(result.metrics, "forward_seconds")->value;
  std::printf("%s, ranks %s: %s an iteration (forward, waited for: %s)\n", result.name.c_str(),
              format_setting(*find_named(result.settings, "ranks")).c_str(), ms(iteration).c_str(),
              ms(forward).c_str());
  if (const auto* bytes = find_named(result.metrics, "bytes_between_hosts"))
    std::printf("  between %s hosts: %s an iteration (counted; host dedup: %s)\n",
                format_setting(*find_named(result.settings, "hosts")).c_str(),
                format_bytes(bytes->value).c_str(), options.host_dedup.c_str());
  if (options.rank_of > 0) {
    std::printf("  measured: one rank's work on its GPU; floor %s (%.0f %%)\n",
                ms(result.ceilings[1].second).c_str(), 100 * result.shares[0].second);
    std::printf(
        "  derived, not measured: %s of links at %g GB/s (assumed), %s an iteration on %d GPUs\n",
        ms(setting(result, "derived_link_seconds")).c_str(), options.link,
        ms(setting(result, "derived_iteration_seconds")).c_str(), options.rank_of);
  }
  if (is_published_work(options.collection))
    std::printf(
        "  published (dynamicemb's README, 8 H100, TorchREC / dynamicemb): 14.88 / 21.56 ms with "
        "dedup, 23.99 / 28.47 ms without\n");
  else
    std::printf("  other sizes than the published work: not comparable with its figures\n");
}

// Ranks must be asked for the same work.
uint64_t hash_of(const CollectionOptionsOfCli& options) {
  const CollectionOptions& of = options.collection;
  return hash_string(cat("bench collection ", options.device, " ", of.batch, " ", of.keys, " ",
                         of.dim, " ", of.divide_tables, " ", of.dynamic, " ", of.dedup, " ",
                         of.distinct, " ", of.warmup, " ", of.iterations, " ", options.host_dedup));
}

// On ranks that are threads, or as the rank that a launcher started.
BenchResult bench_ranks(const RankPlace& place, const CollectionOptionsOfCli& options) {
  RankJob job{.device = options, .ranks = options.launched, .configuration = hash_of(options)};
  job.thread_ranks = std::max(1, options.ranks);
  EMBLEM_REQUIRE(options.hosts >= 1 && job.thread_ranks % options.hosts == 0, "--hosts ",
                 options.hosts, ": ", job.thread_ranks,
                 " ranks cannot be divided equally among the hosts; give a divisor of ",
                 job.thread_ranks);
  for (int r = 0; options.hosts > 1 && r < job.thread_ranks; ++r)
    job.hosts.push_back(cat("host ", r / (job.thread_ranks / options.hosts)));
  BenchResult result;
  const RankBody body = [&](const Workers& workers, Communicator& control, Communicator& exchange) {
    BenchResult own = bench_collection(workers.context, control, exchange, options.collection);
    if (control.rank() == 0) result = std::move(own);
  };
  if (place.launcher == Launcher::kNone)
    run_thread_ranks(job, body);
  else
    run_process_rank(place, job, body);
  return result;
}

int run(CollectionOptionsOfCli& options) {
  options.collection.dynamic = options.kind == "dynamic";
  options.collection.dedup = !options.no_dedup;
  if (options.host_dedup != "none")
    options.collection.host_dedup =
        options.host_dedup == "rows" ? HostDedup::kRows : HostDedup::kRowsAndSums;
  EMBLEM_REQUIRE(options.host_dedup != "rows" || options.device == "cpu",
                 "--host-dedup rows is for CPUs; GPUs sum gradients, too: --host-dedup sums");
  EMBLEM_REQUIRE(!options.no_dedup || options.device == "cuda",
                 "--no-dedup is measured on a GPU; add --device cuda");
  EMBLEM_REQUIRE(options.ranks == 0 || options.rank_of == 0,
                 "--ranks and --rank-of exclude each other: several ranks, or the work of one");
  const RankPlace place = find_rank_place(options.launched);
  EMBLEM_REQUIRE(place.size == 1 || options.ranks == 0,
                 "--ranks starts ranks as threads, but this ", "process is one of ", place.size,
                 " ranks; omit it");
  BenchResult result;
  if (options.rank_of > 0) {
    const Workers workers = make_workers(options, 0);
    result = bench_collection_share(workers.context, options.rank_of, options.link * 1e9,
                                    options.collection);
  } else {
    result = bench_ranks(place, options);
  }
  if (place.rank != 0) return 0;
  print(result, options);
  write_json({result}, options.json);
  return 0;
}

}  // namespace

void add_collection_bench(Command& bench) {
  auto options = std::make_shared<CollectionOptionsOfCli>();
  Command command = bench.add_command(
      "collection",
      "Speed of lookups and updates of 26 tables over ranks (dynamicemb's EmbeddingCollection "
      "protocol: uniform keys, Adam, no dense part), beside published figures; starts its ranks as "
      "threads, or is one of those that a launcher started");
  CollectionOptions& of = options->collection;
  command.option("--ranks", options->ranks, "N", "Ranks, as threads of this process (default: 1)")
      .range(1, 1024)
      .hide_default();
  command.option("--hosts", options->hosts, "N",
                 "Thread ranks stand for N hosts: the bytes between them are counted");
  command.choice("--host-dedup", options->host_dedup, {"none", "rows", "sums"},
                 "Send a row to a host once; sums: and one gradient per key back");
  command
      .option("--rank-of", options->rank_of, "N",
              "Instead, the work of one of N GPUs on one GPU; the time of links is computed")
      .range(1, 65536)
      .hide_default();
  command.option("--link", options->link, "GB/S", "Rate of a GPU's links, for --rank-of")
      .positive();
  command.option("--batch", of.batch, "N", "Samples of all ranks").positive();
  command.option("--keys", of.keys, "N", "Keys of a sample, for each table").positive();
  command.option("--dim", of.dim, "N", "Embedding dimension").positive();
  command.option("--divide-tables", of.divide_tables, "N", "Use tables with 1/N of the rows")
      .positive();
  command.choice("--tables", options->kind, {"static", "dynamic"}, "Kind of tables");
  command.flag("--no-dedup", options->no_dedup, "Send equal keys of a rank several times (GPU)");
  command.option("--distinct", of.distinct, "N", "Distinct batches, used in turn").positive();
  command.option("--warmup", of.warmup, "N", "Iterations before timing starts").at_least(0);
  command.option("--iterations", of.iterations, "N", "Timed iterations").positive();
  add_rank_options(command, options->launched);
  command.output("--json", options->json, "Also write the results to this file");
  add_device_options(command, *options);
  command.run_interruptible([options] { return run(*options); });
}

}  // namespace emblem
