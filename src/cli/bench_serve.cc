#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/load/serve_bench.h"
#include "cli/commands.h"
#include "core/process.h"

namespace emblem {
namespace {

struct ServeOptionsOfCli : ServeBenchOptions {
  std::string protocol = "http", shared = "none", arrival_kind = "poisson", json;
  std::vector<std::string> shapes;
  double stability_percent = 10;
};

std::vector<ReferenceTable> published_figures() {
  const std::string folder =
      find_reference_folder(std::filesystem::current_path().string(), program_path());
  const std::string file = folder + "/serve-hps.json";
  if (folder.empty() || !std::filesystem::exists(file)) return {};
  return {read_reference(file)};
}

void run(ServeOptionsOfCli& options) {
  options.target.protocol = options.protocol == "grpc" ? LoadProtocol::kGrpc : LoadProtocol::kHttp;
  options.shared_memory = options.shared == "system";
  options.arrivals =
      options.arrival_kind == "constant" ? ArrivalKind::kConstant : ArrivalKind::kPoisson;
  options.stability = options.stability_percent / 100;
  for (const std::string& shape : options.shapes)
    options.input.shapes.insert(parse_shape_option(shape));
  const std::vector<BenchResult> results = bench_serve(options);
  std::printf("%s", serve_report(results, published_figures()).c_str());
  if (!options.json.empty()) {
    write_bench_results(options.json, results);
    std::printf("wrote %s\n", options.json.c_str());
  }
  require_answers(results);
}

void add_input_options(CLI::App& command, ServeOptionsOfCli& options) {
  LoadInputOptions& input = options.input;
  command.add_option("--batch", input.batch, "Rows of a request")->capture_default_str();
  command.add_option("--input-data", input.input_data,
                     "Requests as perf_analyzer reads them: {\"data\": [{\"INPUT\": [...]}]} "
                     "(default: random ones)");
  command
      .add_option("--shape", options.shapes,
                  "NAME:1,26: the shape of an input where the model leaves it open (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--variety", input.variety, "Different random requests")
      ->capture_default_str();
  command.add_option("--alpha", input.alpha, "Exponent of the random ids' power law; 0: uniform")
      ->capture_default_str();
  command.add_option("--key-range", input.key_range, "Random ids are below this")
      ->capture_default_str();
  command.add_option("--seed", input.seed, "Of random requests and arrivals")
      ->capture_default_str();
}

void add_load_options(CLI::App& command, ServeOptionsOfCli& options) {
  CLI::Option* concurrency = command
                                 .add_option("--concurrency", options.concurrency,
                                             "Closed loops with so many requests under way")
                                 ->delimiter(',')
                                 ->capture_default_str();
  command
      .add_option("--rate", options.rates,
                  "Open loops with so many requests a second, latency from when they were due")
      ->delimiter(',')
      ->excludes(concurrency);
  command.add_option("--arrivals", options.arrival_kind, "Of an open loop")
      ->check(CLI::IsMember({"poisson", "constant"}))
      ->capture_default_str();
  command.add_option("--max-in-flight", options.max_in_flight, "Connections of an open loop")
      ->capture_default_str();
  command.add_option("--warmup", options.warmup, "Seconds before anything counts")
      ->capture_default_str();
  command.add_option("--window", options.window, "Seconds of a window")->capture_default_str();
  command.add_option("--max-windows", options.max_windows, "Windows at most")
      ->capture_default_str();
  command
      .add_option("--stability", options.stability_percent,
                  "Stop when three windows agree within so many percent")
      ->capture_default_str();
  command.add_option("--seconds", options.seconds, "Measure once, for so long, instead");
  command.add_option("--requests", options.requests, "Measure once, so many requests, instead");
}

}  // namespace

void add_serve_bench(CLI::App& bench) {
  auto options = std::make_shared<ServeOptionsOfCli>();
  CLI::App* command = bench.add_subcommand(
      "serve", "Latency and throughput of a running server (any that speaks KServe v2)");
  command->add_option("--url", options->target.url,
                      "host:port (default: localhost:8000, with gRPC localhost:8001)");
  command->add_option("--protocol", options->protocol, "How to speak to the server")
      ->check(CLI::IsMember({"http", "grpc"}))
      ->capture_default_str();
  command->add_option("--model", options->target.model, "Model to ask")->required();
  command->add_option("--model-version", options->target.version, "(default: the newest)");
  command->add_option("--token", options->target.token, "Sent as authorization: Bearer TOKEN");
  command->add_option("--timeout", options->target.timeout_seconds, "Seconds for an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_input_options(*command, *options);
  add_load_options(*command, *options);
  command->add_option("--shared-memory", options->shared, "Where tensors are")
      ->check(CLI::IsMember({"none", "system"}))
      ->capture_default_str();
  command
      ->add_option("--tolerance", options->tolerance,
                   "How far floats may be from the first answer to the same request")
      ->capture_default_str();
  command->add_option("--json", options->json, "Also write the results to this file");
  command->callback([options] { run(*options); });
}

}  // namespace emblem
