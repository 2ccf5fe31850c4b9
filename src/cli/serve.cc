#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/system/interrupt.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/server.h"
#include "launch/interrupt_handler.h"
#include "serve/serving.h"

namespace emblem {
namespace {

constexpr double kCleanUpSeconds = 10;

struct ServeArguments {
  api::ServerOptions server;
  std::string max_body = "64MiB", max_memory = "2GiB", max_response = "1GiB";
  double exit_timeout = 30;
  std::vector<std::string> deltas;
  std::string trace_file;
  RemoteArguments remote;

  ServeArguments() {
    server.http_port = 8000;
    server.grpc_port = 8001;
    server.metrics_port = 8002;
    server.max_client_threads = ModelServerOptions::default_client_threads();
  }
};

// Empty: there is none. A variable that is set to nothing was meant to be one.
std::string token_from(const std::string& value, const char* variable) {
  const char* set = std::getenv(variable);
  if (!value.empty() || set == nullptr) return value;
  EMBLEM_REQUIRE(*set != '\0', variable, " is set, but empty; give it a token or unset it");
  return set;
}

api::ServerOptions server_options(const ServeArguments& arguments) {
  api::ServerOptions server = arguments.server;
  server.token = token_from(server.token, "EMBLEM_TOKEN");
  server.control_token = token_from(server.control_token, "EMBLEM_CONTROL_TOKEN");
  if (!server.table_servers.empty()) server.table_token = token_from("", "EMBLEM_TABLE_TOKEN");
  server.max_request_size = parse_size(arguments.max_body, "--max-request-size");
  server.max_response_size = parse_size(arguments.max_response, "--max-response-size");
  server.max_memory = parse_size(arguments.max_memory, "--max-memory");
  for (std::string& prefix : server.allow_shared_memory)
    if (prefix == "true") prefix.clear();  // the flag without a prefix
  for (const std::string& text : arguments.deltas) {
    const size_t sign = text.find('=');
    EMBLEM_REQUIRE(sign != std::string::npos && sign > 0, "--deltas '", text,
                   "' is not of the form MODEL=FOLDER");
    server.deltas[text.substr(0, sign)] = text.substr(sign + 1);
  }
  if (!arguments.trace_file.empty()) server.trace_config.push_back("file=" + arguments.trace_file);
  server.cache_dir = arguments.remote.cache_dir;
  server.endpoint = arguments.remote.endpoint;
  if (!arguments.remote.cache_size.empty())
    server.cache_size = parse_size(arguments.remote.cache_size, "--cache-size");
  return server;
}

void print_addresses(const api::ServerOptions& options, const api::Server& server) {
  const char* secure = options.tls_certificate.empty() ? "" : "s";
  const std::string address = server.address();
  std::printf("http    %s\n", server.url().c_str());
  if (server.grpc_port() == 0)
    std::printf("grpc    off: this build has no libnghttp2\n");
  else
    std::printf("grpc    %s\n", host_and_port(address, server.grpc_port()).c_str());
  std::printf("metrics http%s://%s/metrics\n", secure,
              host_and_port(address, server.metrics_port()).c_str());
  if (server.health_port() != 0)
    std::printf("health  http%s://%s/v2/health\n", secure,
                host_and_port(address, server.health_port()).c_str());
  if (!options.table_parts.empty())
    std::printf("tables  parts %s of %d, for front ends\n",
                to_string(parse_part_range(options.table_parts)).c_str(), kParts);
  if (!options.table_servers.empty())
    std::printf("tables  on table servers: %s\n",
                joined(parse_table_servers(options.table_servers), ", ", &TableServerAddress::text)
                    .c_str());
}

// What is open and what is closed, with the option that opens it.
void print_access(const api::ServerOptions& options) {
  const auto line = [](const std::string& text) { std::printf("access  %s\n", text.c_str()); };
  if (options.address.empty() && options.token.empty())
    line(
        "network: this machine only; --address 0.0.0.0 opens it to others, with EMBLEM_TOKEN only "
        "to clients with the token");
  std::string tokens = options.token.empty() ? "inference: no token needed (EMBLEM_TOKEN)"
                                             : "inference: with the token";
  tokens +=
      options.control_token.empty()
          ? cat("; control: ", options.token.empty() ? "no token needed" : "with the same token",
                " (EMBLEM_CONTROL_TOKEN)")
          : "; control: with the control token";
  line(tokens);
  line(options.model_control_mode == "explicit"
           ? "model control: clients may load and unload models"
           : "model control: off (--model-control-mode explicit)");
  if (options.allow_item_changes) line("changes of items: on (--allow-item-changes)");
  if (options.allow_shared_memory.empty())
    line("shared memory: off (--allow-shared-memory)");
  else
    line(options.allow_remote_shared_memory
             ? "shared memory: on, also for clients on other machines"
             : "shared memory: on for clients on this machine (--allow-remote-shared-memory)");
  for (const std::string& text : options.restricted_api) {
    const RestrictedApis one = parse_restricted_apis(text);
    line(cat("restricted: ", joined(one.apis, ", ", [](Api api) { return name_of(api); }),
             " need the header ", one.key));
  }
}

void print_models(const api::ServerOptions& options, const api::Server& server) {
  const std::vector<api::ServedModel> models = server.models();
  for (const api::ServedModel& model : models)
    std::printf("model   %s %s %s%s%s\n", model.name.c_str(), model.version.c_str(),
                model.state.c_str(), model.reason.empty() ? "" : ": ", model.reason.c_str());
  if (models.empty() && !server.is_ready())
    std::printf(
        "model   none in %s; health checks fail until one is loaded (--strict-readiness=false)\n",
        options.models.c_str());
}

// Ends the process where requests or loads that cannot be interrupted do not end. By a signal:
// there may be no room for a thread.
void end_within(double seconds) {
  std::signal(SIGALRM, [](int) {
    constexpr char kLine[] =
        "emblem: requests or loads in progress have not ended; the server ends without them\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kLine, sizeof kLine - 1);
    std::_Exit(1);
  });
  ::alarm(static_cast<unsigned>(std::ceil(seconds)));
}

void run(const ServeArguments& arguments) {
  const InterruptHandler handler;
  // Large blocks go back to the system when they are freed, so that the memory of the process
  // follows --max-memory.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  const api::ServerOptions options = server_options(arguments);
  api::Server server(options);
  print_addresses(options, server);
  print_access(options);
  print_models(options, server);
  std::printf("ready\n");
  std::fflush(stdout);
  while (!interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::printf("finishing requests in progress\n");
  end_within(arguments.exit_timeout + kCleanUpSeconds);
  server.drain(arguments.exit_timeout);
}

}  // namespace

void add_serve(Command& program) {
  auto options = std::make_shared<ServeArguments>();
  Command command = program.add_command(
      "serve", "Serve models: KServe v2 with Triton's extensions, over HTTP and gRPC");
  command
      .option("--models,--model-repository", options->server.models, "DIR",
              "Model repository: a folder that emblem export wrote models into, here or in a store")
      .required();
  add_remote_options(command, options->remote);
  command.option("--address", options->server.address, "ADDRESS",
                 "Address to listen on (default: 0.0.0.0 with a token, 127.0.0.1 without)");
  command
      .option("--http-port", options->server.http_port, "PORT", "Port for HTTP (0: any free one)")
      .range(0, 65535);
  command
      .option("--grpc-port", options->server.grpc_port, "PORT", "Port for gRPC (0: any free one)")
      .range(0, 65535);
  command
      .option("--metrics-port", options->server.metrics_port, "PORT",
              "Port for Prometheus metrics (0: any free one)")
      .range(0, 65535);
  command
      .option("--health-port", options->server.health_port, "PORT",
              "Port for health checks alone, on a thread of its own (0: any free one; -1: none)")
      .range(-1, 65535);
  command.choice(
      "--model-control-mode", options->server.model_control_mode, {"none", "poll", "explicit"},
      "none: load all models at startup; poll: also watch for changes; explicit: load the "
      "models that --load-model and clients name");
  command.repeatable("--load-model", options->server.load_model, "NAME",
                     "With explicit: a model to load at startup (repeatable)");
  command
      .option("--repository-poll-secs", options->server.repository_poll_secs, "SECONDS",
              "With poll: seconds between checks")
      .range(1e-3, 1e6);
  command.flag("--allow-item-changes", options->server.allow_item_changes,
               "Clients may add, replace and remove items of served indexes; with a control token, "
               "those that have it");
  command
      .option("--max-client-threads", options->server.max_client_threads, "N",
              "With explicit: threads that the engines of models may have in all whose "
              "configuration clients send with their load requests")
      .at_least(0);
  command.flag(
      "--strict-readiness", options->server.strict_readiness,
      "Ready only once there are models and all of them are loaded; =false: as soon as the "
      "server answers (default: true)");
  command.option("--ps", options->server.ps, "FILE",
                 "HPS's ps.json: stores of the tables, and models of backend hps");
  command.repeatable("--deltas", options->deltas, "MODEL=DIR",
                     "Apply row updates that training writes to DIR (repeatable)");
  command
      .option("--table-parts", options->server.table_parts, "PARTS",
              "Be a table server: load the rows of these parts of each table alone, and answer "
              "front ends; FIRST-LAST (0-1364) of 0-4095, or K/N: the K-th of N servers")
      .not_empty();
  command
      .option("--table-servers", options->server.table_servers, "HOST:PORT,...",
              "Be a front end: read rows from these table servers (HTTP ports), replicas "
              "included; the variable EMBLEM_TABLE_TOKEN has their token")
      .not_empty();
  command.option("--table-tls-ca", options->server.table_tls_ca, "FILE",
                 "With --table-servers: connect by TLS, and refuse servers without a certificate "
                 "for their HOST that an authority in this file (PEM) signed");
  command.option("--table-tls-certificate", options->server.table_tls_certificate, "FILE",
                 "Certificate (PEM) for table servers with --tls-client-ca");
  command.option("--table-tls-key", options->server.table_tls_key, "FILE",
                 "Private key (PEM) of --table-tls-certificate");
  command
      .option("--table-timeout-ms", options->server.table_timeout_ms, "MILLISECONDS",
              "With --table-servers: longest time of a lookup, with all retries")
      .range(1, 3600000);
  command
      .option("--keep-version-secs", options->server.keep_version_secs, "SECONDS",
              "With --table-parts: how long a replaced version is kept that no front end uses")
      .range(0, 1e6);
  command.choice("--device", options->server.device, {"cpu", "cuda"},
                 "cuda: compute all models on the GPU; cpu: those without an instance_group of "
                 "KIND_GPU on the CPU");
  command.choice(
      "--row-precision", options->server.row_precision, {"fp32", "bf16", "fp16", "int8"},
      "Keep rows of tables in memory in this type (default: volatile_db.row_precision of "
      "--ps, or fp32)");
  command.choice("--precision", options->server.precision, {"fp32", "bf16", "fp16", "int8"},
                 "Compute layers in this type (default: the model's parameter precision, or as it "
                 "was exported)");
  command
      .option("--http-threads", options->server.http_threads, "N", "Threads for HTTP connections")
      .range(1, 1024);
  command.option("--grpc-threads", options->server.grpc_threads, "N", "Threads for gRPC calls")
      .range(1, 1024);
  command
      .option("--max-connections", options->server.max_connections, "N",
              "Maximum number of open connections, of HTTP and of gRPC each")
      .positive();
  command.option("--max-request-size", options->max_body, "SIZE", "Largest request, decompressed");
  command
      .option(
          "--slo-p99-us", options->server.slo_p99_us, "MICROSECONDS",
          "Latency target: models with dynamic batching form the largest batches that keep 99 % "
          "of the answers within it (0: none)")
      .range(0, 60e6);
  command.option("--max-response-size", options->max_response, "SIZE",
                 "Largest tensors that a request may be answered with");
  command.option("--max-memory", options->max_memory, "SIZE",
                 "Memory that the requests and answers of all clients may hold together");
  command
      .option("--idle-timeout", options->server.idle_timeout, "SECONDS",
              "Close HTTP connections without a request for this time")
      .range(1e-3, 1e6);
  command.option("--tls-certificate", options->server.tls_certificate, "FILE",
                 "Certificate (PEM) for TLS on all ports; needs --tls-key");
  command.option("--tls-key", options->server.tls_key, "FILE",
                 "Private key (PEM) of --tls-certificate");
  command.option(
      "--tls-client-ca", options->server.tls_client_ca, "FILE",
      "Refuse clients without a certificate that an authority in this file (PEM) signed");
  command.option("--token", options->server.token, "TOKEN",
                 "Refuse requests without this bearer token (better: the variable EMBLEM_TOKEN)");
  command.option("--control-token", options->server.control_token, "TOKEN",
                 "Bearer token for model control, shared memory, trace and log settings (better: "
                 "the variable EMBLEM_CONTROL_TOKEN)");
  command.repeatable("--restricted-api,--http-restricted-api,--grpc-restricted-protocol",
                     options->server.restricted_api, "APIS=KEY=VALUE",
                     "Refuse requests to these APIs without the header KEY: VALUE; any of health, "
                     "metadata, inference, shared-memory, model-config, model-repository, "
                     "statistics, trace, logging, metrics, separated by commas (repeatable)");
  command.flag("--allow-shared-memory", options->server.allow_shared_memory, "PREFIX",
               "Let clients on this machine register shared memory; with PREFIX only objects whose "
               "names begin with it (repeatable)");
  command.flag("--allow-remote-shared-memory", options->server.allow_remote_shared_memory,
               "With --allow-shared-memory: also clients on other machines");
  command.option("--trace-file", options->trace_file, "FILE",
                 "The same as --trace-config file=FILE");
  command.repeatable("--trace-config", options->server.trace_config, "NAME=VALUE",
                     "Traces of requests: file=PATH, level=TIMESTAMPS, rate=N (one of N requests), "
                     "count=N, log-frequency=N (repeatable)");
  command
      .option("--exit-timeout-secs", options->exit_timeout, "SECONDS",
              "Seconds that requests in progress may take after Ctrl-C or SIGTERM")
      .range(0, 1e6);
  command.run([options] { run(*options); });
}

}  // namespace emblem
