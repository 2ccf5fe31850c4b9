#include <unistd.h>

#include <cstdio>
#include <memory>

#include "bench/load/freshness.h"
#include "cli/bench/bench_report.h"
#include "cli/commands.h"

namespace emblem {
namespace {

struct BenchFreshnessArguments : FreshnessOptions {
  std::string json;
};

void run(const BenchFreshnessArguments& options) {
  const BenchResult result = bench_freshness(options, show_progress);
  show_progress("");
  std::printf("%s", freshness_report(result).c_str());
  if (options.json.empty()) return;
  write_bench_results(options.json, {result});
  std::printf("wrote %s\n", options.json.c_str());
}

}  // namespace

void add_freshness_bench(Command& bench) {
  auto options = std::make_shared<BenchFreshnessArguments>();
  Command command = bench.add_command(
      "freshness",
      "Time from an event in a topic of Kafka until it changes a prediction, by stage: online "
      "training, deltas and a server on this machine");
  command.option("--brokers", options->brokers, "HOST:PORT,...",
                 "Kafka brokers (default: some within this process)");
  command.option("--topic", options->topic, "NAME",
                 "Topic to write to: one partition, without messages");
  command.option("--probes", options->probes, "N", "Events to follow").positive();
  command.option("--in-flight", options->in_flight, "N", "Of them at a time").range(1, 64);
  command.option("--events", options->events_per_second, "N",
                 "Other events per second to train on");
  command.option("--requests", options->requests_per_second, "N",
                 "Requests a second to the server, of 64 rows");
  command.option("--batch", options->batch_size, "N", "Largest training batch").positive();
  command
      .option("--max-wait-ms", options->max_wait_ms, "N",
              "A batch is trained after this time though it is not full")
      .positive();
  command.option("--delta-steps", options->delta_steps, "N", "Steps between deltas").positive();
  command.option("--threads", options->threads, "N", "Compute threads of training").range(1, 1024);
  command.output("--json", options->json, "Also write the result to this file");
  command.run([options] { run(*options); });
}

}  // namespace emblem
