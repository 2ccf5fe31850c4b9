#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/load/serve_bench.h"
#include "cli/commands.h"
#include "core/system/process.h"

namespace emblem {
namespace {

struct ServeOptionsOfCli : ServeBenchOptions {
  std::string protocol = "http", shared = "none", arrival_kind = "poisson", json;
  std::vector<std::string> shapes;
  double stability_percent = 10;
};

std::vector<ReferenceTable> published_figures_of_hps() {
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
  std::printf("%s", serve_report(results, published_figures_of_hps()).c_str());
  if (!options.json.empty()) {
    write_bench_results(options.json, results);
    std::printf("wrote %s\n", options.json.c_str());
  }
  require_answers(results);
}

void add_input_options(Command& command, ServeOptionsOfCli& options) {
  LoadInputOptions& input = options.input;
  command.option("--batch", input.batch, "N", "Rows per request");
  command.option("--input-data", input.input_data, "FILE",
                 "Requests as perf_analyzer reads them: {\"data\": [{\"INPUT\": [...]}]} "
                 "(default: random ones)");
  command.repeatable("--shape", options.shapes, "NAME:N,...",
                     "Shape of an input with variable sizes (repeatable)");
  command.option("--variety", input.variety, "N", "Number of distinct random requests");
  command.option("--alpha", input.alpha, "X", "Exponent of the random ids' power law; 0: uniform");
  command.option("--key-range", input.key_range, "N", "Random ids are below this");
  command.option("--seed", input.seed, "N", "Seed of random requests and arrivals");
}

void add_load_options(Command& command, ServeOptionsOfCli& options) {
  const Option concurrency = command.list("--concurrency", options.concurrency, "N,...",
                                          "Closed loops with N concurrent requests");
  command
      .list("--rate", options.rates, "N,...",
            "Open loops with N requests per second; latency is measured from when a request is due")
      .excludes(concurrency);
  command.choice("--arrivals", options.arrival_kind, {"poisson", "constant"},
                 "Arrival process of open loops");
  command.option("--max-in-flight", options.max_in_flight, "N", "Connections of open loops");
  command.option("--warmup", options.warmup, "SECONDS", "Seconds before measuring starts");
  command.option("--window", options.window, "SECONDS", "Length of a measuring window");
  command.option("--max-windows", options.max_windows, "N", "Maximum number of windows");
  command.option("--stability", options.stability_percent, "PERCENT",
                 "Stop when three windows agree within this percentage");
  command.option("--seconds", options.seconds, "SECONDS",
                 "Measure once for this time, without windows");
  command.option("--requests", options.requests, "N",
                 "Measure once for N requests, without windows");
}

}  // namespace

void add_serve_bench(Command& bench) {
  auto options = std::make_shared<ServeOptionsOfCli>();
  Command command = bench.add_command(
      "serve", "Latency and throughput of a running server (any with the KServe v2 protocol)");
  command.option("--url", options->target.url, "HOST:PORT",
                 "host:port (default: localhost:8000, with gRPC localhost:8001)");
  command.choice("--protocol", options->protocol, {"http", "grpc"}, "Protocol of the server");
  command.option("--model", options->target.model, "NAME", "Model to send requests to").required();
  command.option("--model-version", options->target.version, "N",
                 "Version of the model (default: the newest)");
  command.option("--token", options->target.token, "TOKEN", "Bearer token to send");
  command
      .option("--timeout", options->target.timeout_seconds, "SECONDS",
              "Seconds to wait for an answer")
      .positive();
  add_input_options(command, *options);
  add_load_options(command, *options);
  command.choice("--shared-memory", options->shared, {"none", "system"},
                 "Pass tensors through shared memory");
  command.option("--tolerance", options->tolerance, "X",
                 "Relative tolerance of floats against the first answer to the same request");
  command.output("--json", options->json, "Also write the results to this file");
  command.run([options] { run(*options); });
}

}  // namespace emblem
