#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/pipeline_options.h"
#include "core/device/device.h"
#include "core/device/gpu.h"
#include "core/system/interrupt.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "data/source/uri.h"
#include "launch/interrupt_handler.h"
#include "serve/repository/remote_repository.h"
#include "serve/serving.h"

namespace emblem {
namespace {

struct ServeArguments {
  ServingOptions serving;
  std::string address, control = "none", tls_certificate, tls_key, tls_client_ca;
  std::string token, control_token, trace_file;
  std::vector<std::string> restricted, shared_memory, trace;
  uint16_t http_port = 8000, grpc_port = 8001, metrics_port = 8002;
  int health_port = -1;
  std::string max_body = "64MiB", max_memory = "2GiB", max_response = "1GiB";
  double idle_timeout = 120;
  double exit_timeout = 30;
  bool remote_shared_memory = false;
  std::string device = "cpu";
  std::vector<std::string> deltas;
  int64_t slo_p99_us = 0;
  std::string table_parts, table_servers;
  ClientTls table_tls;
  int64_t table_timeout_ms = 1000;
  double keep_version_seconds = 30;
  RemoteArguments remote;
};

// Empty: there is none. A variable that is set to nothing was meant to be one.
std::string token_from(const std::string& value, const char* variable) {
  const char* set = std::getenv(variable);
  if (!value.empty() || set == nullptr) return value;
  EMBLEM_REQUIRE(*set != '\0', variable, " is set, but empty; give it a token or unset it");
  return set;
}

AccessOptions access_options(const ServeArguments& options) {
  AccessOptions access;
  access.inference_token = token_from(options.token, "EMBLEM_TOKEN");
  access.control_token = token_from(options.control_token, "EMBLEM_CONTROL_TOKEN");
  for (const std::string& text : options.restricted)
    access.restricted.push_back(parse_restricted_apis(text));
  access.allow_shared_memory = !options.shared_memory.empty();
  access.allow_remote_shared_memory = options.remote_shared_memory;
  return access;
}

// A server that anyone may ask for inference is on loopback unless its user says otherwise.
std::string address_of(const ServeArguments& options, const AccessOptions& access) {
  if (!options.address.empty()) return options.address;
  return access.inference_token.empty() ? "127.0.0.1" : "0.0.0.0";
}

// A table server or a front end of such.
void add_split_tables(const ServeArguments& options, ServingOptions& serving) {
  const bool is_table_server = !options.table_parts.empty();
  if (!is_table_server && options.table_servers.empty()) return;
  const char* const option = is_table_server ? "--table-parts" : "--table-servers";
  EMBLEM_REQUIRE(!is_table_server || options.table_servers.empty(),
                 "--table-parts makes a table server, --table-servers a front end; a server is one "
                 "of them");
  EMBLEM_REQUIRE(!serving.models.on_gpu, option,
                 " cannot be used with --device cuda: models with split tables run on a CPU");
  EMBLEM_REQUIRE(serving.models.ps_config.empty(), option,
                 " cannot be used with --ps: split tables are in the memory of table servers");
  EMBLEM_REQUIRE(is_table_server || serving.models.deltas.empty(),
                 "--table-servers cannot be used with --deltas; give it to the table servers");
  EMBLEM_REQUIRE(
      is_table_server || serving.models.row_precision.empty(),
      "--table-servers cannot be used with --row-precision; give it to the table servers");
  if (is_table_server) {
    serving.table_parts = {
        .parts = parse_part_range(options.table_parts),
        .row_type = parse_dtype(serving.models.row_precision).value_or(DType::kF32),
        .keep = std::chrono::milliseconds(static_cast<int64_t>(options.keep_version_seconds * 1e3)),
        .max_answer_bytes = serving.models.requests.max_answer_bytes};
    return;
  }
  serving.table_servers.emplace();
  serving.table_servers->servers = parse_table_servers(options.table_servers);
  serving.table_servers->token = token_from("", "EMBLEM_TABLE_TOKEN");
  EMBLEM_REQUIRE(trim(serving.table_servers->token) == serving.table_servers->token,
                 "EMBLEM_TABLE_TOKEN begins or ends with a space or a line break, which no request "
                 "can send; remove it");
  serving.table_servers->timeout = std::chrono::milliseconds(options.table_timeout_ms);
  const ClientTls& tls = options.table_tls;
  EMBLEM_REQUIRE(
      !tls.ca.empty() || (tls.certificate.empty() && tls.key.empty()),
      "--table-tls-certificate and --table-tls-key need --table-tls-ca, which checks the "
      "certificates of table servers");
  if (!tls.ca.empty()) serving.table_servers->tls = tls;
}

ServingOptions serving_options(const ServeArguments& options) {
  ServingOptions serving = options.serving;
  using Control = ModelServerOptions::Control;
  serving.models.control = options.control == "poll"       ? Control::kPoll
                           : options.control == "explicit" ? Control::kExplicit
                                                           : Control::kAll;
  EMBLEM_REQUIRE(
      serving.models.models.empty() || serving.models.control == Control::kExplicit,
      "--load-model needs --model-control-mode explicit; in other modes all models are loaded");
  require_precision_of_device(serving.models.precision, options.device);
  serving.models.on_gpu = options.device == "cuda";
  if (serving.models.on_gpu)
    dispatch(
        Device::kCuda, [] {}, [] { cuda::require_usable_gpu(); });
  for (const std::string& text : options.deltas) {
    const size_t sign = text.find('=');
    EMBLEM_REQUIRE(sign != std::string::npos && sign > 0, "--deltas '", text,
                   "' is not of the form MODEL=FOLDER");
    EMBLEM_REQUIRE(!is_object_uri(text.substr(sign + 1)), "--deltas '", text,
                   "' names a remote store; deltas are read from a folder of this machine: train "
                   "with a --model-dir that servers can read, or copy the deltas there");
    serving.models.deltas[text.substr(0, sign)] = text.substr(sign + 1);
  }
  serving.access = access_options(options);
  serving.models.trace = parse_trace_options(options.trace);
  if (!options.trace_file.empty()) serving.models.trace.file = options.trace_file;
  const int64_t max_body = parse_size(options.max_body, "--max-request-size");
  serving.models.requests.max_answer_bytes =
      static_cast<uint64_t>(parse_size(options.max_response, "--max-response-size"));
  serving.shared_memory.max_tensor_bytes = static_cast<uint64_t>(max_body);
  for (const std::string& prefix : options.shared_memory)  // "true": the flag without a prefix
    serving.shared_memory.allowed_prefixes.push_back(prefix == "true" ? "" : prefix);
  serving.models.requests.slo_p99 = std::chrono::microseconds(options.slo_p99_us);
  serving.max_memory = static_cast<size_t>(parse_size(options.max_memory, "--max-memory"));
  EMBLEM_REQUIRE(serving.max_memory >= static_cast<size_t>(max_body), "--max-memory ",
                 options.max_memory, " is less than the --max-request-size of ", options.max_body,
                 "; a request of that size could never be answered");
  serving.http.max_body_bytes = static_cast<size_t>(max_body);
  serving.metrics.threads = 1;
  serving.metrics.workers = 0;
  serving.metrics.max_body_bytes = 4096;  // there is nothing to send
  serving.metrics.max_connections = 256;
  if (options.health_port >= 0) {
    serving.health = serving.metrics;
    serving.health->port = static_cast<uint16_t>(options.health_port);
  }
  HttpServerOptions* const health = serving.health ? &*serving.health : &serving.metrics;
  for (HttpServerOptions* http : {&serving.http, &serving.metrics, health}) {
    http->idle_timeout =
        std::chrono::milliseconds(static_cast<int64_t>(options.idle_timeout * 1000));
    http->address = address_of(options, serving.access);
    http->tls_certificate = options.tls_certificate;
    http->tls_key = options.tls_key;
    http->tls_client_ca = options.tls_client_ca;
  }
  serving.http.port = options.http_port;
  serving.metrics.port = options.metrics_port;
  serving.grpc.address = serving.http.address;
  serving.grpc.port = options.grpc_port;
  serving.grpc.max_message_bytes = max_body;
  serving.grpc.tls_certificate = options.tls_certificate;
  serving.grpc.tls_key = options.tls_key;
  serving.grpc.tls_client_ca = options.tls_client_ca;
  serving.grpc.max_connections = serving.http.max_connections;
  serving.grpc.idle_timeout = serving.http.idle_timeout;
  add_split_tables(options, serving);
  return serving;
}

void print_split_tables(const ServingOptions& serving) {
  if (serving.table_parts)
    std::printf("tables  parts %s of %d, for front ends\n",
                to_string(serving.table_parts->parts).c_str(), kParts);
  if (!serving.table_servers) return;
  const std::string names = joined(serving.table_servers->servers, ", ", &TableServerAddress::text);
  std::printf("tables  on table servers: %s\n", names.c_str());
}

// What is open and what is closed, with the option that opens it.
void print_access(const ServeArguments& options, const ServingOptions& serving) {
  const auto line = [](const std::string& text) { std::printf("access  %s\n", text.c_str()); };
  const AccessOptions& access = serving.access;
  if (options.address.empty() && access.inference_token.empty())
    line(
        "network: this machine only; --address 0.0.0.0 opens it to others, with EMBLEM_TOKEN to "
        "those who have the token");
  std::string tokens = access.inference_token.empty() ? "inference: no token needed (EMBLEM_TOKEN)"
                                                      : "inference: with the token";
  tokens += access.control_token.empty()
                ? cat("; control: ",
                      access.inference_token.empty() ? "no token needed" : "with the same token",
                      " (EMBLEM_CONTROL_TOKEN)")
                : "; control: with the control token";
  line(tokens);
  line(serving.models.control == ModelServerOptions::Control::kExplicit
           ? "model control: clients may load and unload models"
           : "model control: off (--model-control-mode explicit)");
  if (!access.allow_shared_memory)
    line("shared memory: off (--allow-shared-memory)");
  else
    line(access.allow_remote_shared_memory
             ? "shared memory: on, also for clients on other machines"
             : "shared memory: on for clients on this machine (--allow-remote-shared-memory)");
  for (const RestrictedApis& one : access.restricted)
    line(cat("restricted: ", joined(one.apis, ", ", [](Api api) { return name_of(api); }),
             " need the header ", one.key));
}

// Where --models is in a remote store: the server works on a copy.
std::unique_ptr<RemoteRepository> open_remote_repository(const ServeArguments& options,
                                                         ModelServerOptions* models) {
  if (!is_object_uri(models->repository)) return nullptr;
  auto remote =
      std::make_unique<RemoteRepository>(models->repository, open_storage(options.remote));
  models->repository = remote->local();
  models->refresh = [from = remote.get()] { return from->refresh(); };
  return remote;
}

void run(const ServeArguments& options) {
  const InterruptHandler handler;
  // Large blocks go back to the system when they are freed, so that the memory of the process
  // follows --max-memory.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  ServingOptions chosen = serving_options(options);
  const std::unique_ptr<RemoteRepository> remote = open_remote_repository(options, &chosen.models);
  Serving serving(chosen);
  const char* secure = options.tls_certificate.empty() ? "" : "s";
  const char* address = chosen.http.address.c_str();
  std::printf("http    http%s://%s:%u\n", secure, address, serving.http_port());
  if (serving.grpc_port() == 0)
    std::printf("grpc    off: this build has no libnghttp2\n");
  else
    std::printf("grpc    %s:%u\n", address, serving.grpc_port());
  std::printf("metrics http%s://%s:%u/metrics\n", secure, address, serving.metrics_port());
  if (serving.health_port() != 0)
    std::printf("health  http%s://%s:%u/v2/health\n", secure, address, serving.health_port());
  print_split_tables(chosen);
  print_access(options, chosen);
  for (const RepositoryEntry& entry : serving.models().index()) {
    std::printf("model   %s %s %s%s%s\n", entry.name.c_str(), entry.version.c_str(),
                entry.state.c_str(), entry.reason.empty() ? "" : ": ", entry.reason.c_str());
  }
  if (serving.models().index().empty() && !serving.models().is_ready())
    std::printf(
        "model   none in %s: health checks fail until there is one (--strict-readiness=false)\n",
        chosen.models.repository.c_str());
  std::printf("ready\n");
  std::fflush(stdout);
  while (!interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::printf("finishing requests in progress\n");
  if (remote != nullptr) remote->stop_trying_again();
  serving.drain(std::chrono::milliseconds(static_cast<int64_t>(options.exit_timeout * 1000)));
}

}  // namespace

void add_serve(Command& program) {
  auto options = std::make_shared<ServeArguments>();
  Command command = program.add_command(
      "serve", "Serve models: KServe v2 with Triton's extensions, over HTTP and gRPC");
  command
      .option("--models,--model-repository", options->serving.models.repository, "DIR",
              "Model repository: a folder that emblem export wrote models into, here or in a store")
      .required();
  add_remote_options(command, options->remote);
  command.option("--address", options->address, "ADDRESS",
                 "Address to listen on (default: 0.0.0.0 with a token, 127.0.0.1 without)");
  command.option("--http-port", options->http_port, "PORT", "Port for HTTP (0: any free one)");
  command.option("--grpc-port", options->grpc_port, "PORT", "Port for gRPC (0: any free one)");
  command.option("--metrics-port", options->metrics_port, "PORT",
                 "Port for Prometheus metrics (0: any free one)");
  command
      .option("--health-port", options->health_port, "PORT",
              "Port for health checks alone, on a thread of its own (0: any free one; -1: none)")
      .range(-1, 65535);
  command.choice(
      "--model-control-mode", options->control, {"none", "poll", "explicit"},
      "none: load all models at startup; poll: also watch for changes; explicit: load the "
      "models that --load-model and clients name");
  command.repeatable("--load-model", options->serving.models.models, "NAME",
                     "With explicit: a model to load at startup (repeatable)");
  command
      .option("--repository-poll-secs", options->serving.models.poll_seconds, "SECONDS",
              "With poll: seconds between checks")
      .range(1e-3, 1e6);
  command
      .option("--max-client-threads", options->serving.models.max_client_threads, "N",
              "With explicit: threads that the engines of models may have in all whose "
              "configuration clients send with their load requests")
      .at_least(0);
  command.flag(
      "--strict-readiness", options->serving.models.strict_readiness,
      "Ready only once there are models and all of them are loaded; =false: as soon as the "
      "server answers (default: true)");
  command.option("--ps", options->serving.models.ps_config, "FILE",
                 "HPS's ps.json: stores of the tables, and models of backend hps");
  command.repeatable("--deltas", options->deltas, "MODEL=DIR",
                     "Apply row updates that training writes to DIR (repeatable)");
  command
      .option("--table-parts", options->table_parts, "PARTS",
              "Be a table server: load the rows of these parts of each table alone, and answer "
              "front ends; FIRST-LAST (0-1364) of 0-4095, or K/N: the K-th of N servers")
      .not_empty();
  command
      .option("--table-servers", options->table_servers, "HOST:PORT,...",
              "Be a front end: read rows from these table servers (HTTP ports), replicas "
              "included; the variable EMBLEM_TABLE_TOKEN has their token")
      .not_empty();
  command.option("--table-tls-ca", options->table_tls.ca, "FILE",
                 "With --table-servers: connect by TLS, and refuse servers without a certificate "
                 "for their HOST that an authority in this file (PEM) signed");
  command.option("--table-tls-certificate", options->table_tls.certificate, "FILE",
                 "Certificate (PEM) for table servers with --tls-client-ca");
  command.option("--table-tls-key", options->table_tls.key, "FILE",
                 "Private key (PEM) of --table-tls-certificate");
  command
      .option("--table-timeout-ms", options->table_timeout_ms, "MILLISECONDS",
              "With --table-servers: longest time of a lookup, with all retries")
      .range(1, 3600000);
  command
      .option("--keep-version-secs", options->keep_version_seconds, "SECONDS",
              "With --table-parts: how long a replaced version is kept that no front end uses")
      .range(0, 1e6);
  command.choice("--device", options->device, {"cpu", "cuda"},
                 "cuda: compute all models on the GPU; cpu: those without an instance_group of "
                 "KIND_GPU on the CPU");
  command.choice(
      "--row-precision", options->serving.models.row_precision, {"fp32", "bf16", "fp16", "int8"},
      "Keep rows of tables in memory in this type (default: volatile_db.row_precision of "
      "--ps, or fp32)");
  command.choice("--precision", options->serving.models.precision, {"fp32", "bf16", "fp16", "int8"},
                 "Compute layers in this type (default: the model's parameter precision, or as it "
                 "was exported)");
  command
      .option("--http-threads", options->serving.http.threads, "N", "Threads for HTTP connections")
      .range(1, 1024);
  command.option("--grpc-threads", options->serving.grpc.threads, "N", "Threads for gRPC calls")
      .range(1, 1024);
  command
      .option("--max-connections", options->serving.http.max_connections, "N",
              "Maximum number of open connections, of HTTP and of gRPC each")
      .positive();
  command.option("--max-request-size", options->max_body, "SIZE", "Largest request, decompressed");
  command
      .option(
          "--slo-p99-us", options->slo_p99_us, "MICROSECONDS",
          "Latency target: models with dynamic batching form the largest batches that keep 99 % "
          "of the answers within it (0: none)")
      .range(0, 60e6);
  command.option("--max-response-size", options->max_response, "SIZE",
                 "Largest tensors that a request may be answered with");
  command.option("--max-memory", options->max_memory, "SIZE",
                 "Memory that the requests and answers of all clients may hold together");
  command
      .option("--idle-timeout", options->idle_timeout, "SECONDS",
              "Close HTTP connections without a request for this time")
      .range(1e-3, 1e6);
  command.option("--tls-certificate", options->tls_certificate, "FILE",
                 "Certificate (PEM) for TLS on all ports; needs --tls-key");
  command.option("--tls-key", options->tls_key, "FILE", "Private key (PEM) of --tls-certificate");
  command.option(
      "--tls-client-ca", options->tls_client_ca, "FILE",
      "Refuse clients without a certificate that an authority in this file (PEM) signed");
  command.option("--token", options->token, "TOKEN",
                 "Refuse requests without this bearer token (better: the variable EMBLEM_TOKEN)");
  command.option("--control-token", options->control_token, "TOKEN",
                 "Bearer token for model control, shared memory, trace and log settings (better: "
                 "the variable EMBLEM_CONTROL_TOKEN)");
  command.repeatable("--restricted-api,--http-restricted-api,--grpc-restricted-protocol",
                     options->restricted, "APIS=KEY=VALUE",
                     "Refuse requests to these APIs without the header KEY: VALUE; any of health, "
                     "metadata, inference, shared-memory, model-config, model-repository, "
                     "statistics, trace, logging, metrics, separated by commas (repeatable)");
  command.flag("--allow-shared-memory", options->shared_memory, "PREFIX",
               "Let clients on this machine register shared memory; with PREFIX only objects whose "
               "names begin with it (repeatable)");
  command.flag("--allow-remote-shared-memory", options->remote_shared_memory,
               "With --allow-shared-memory: also clients on other machines");
  command.option("--trace-file", options->trace_file, "FILE",
                 "The same as --trace-config file=FILE");
  command.repeatable("--trace-config", options->trace, "NAME=VALUE",
                     "Traces of requests: file=PATH, level=TIMESTAMPS, rate=N (one of N requests), "
                     "count=N, log-frequency=N (repeatable)");
  command
      .option("--exit-timeout-secs", options->exit_timeout, "SECONDS",
              "Seconds that requests in progress may take after Ctrl-C or SIGTERM")
      .range(0, 1e6);
  command.run([options] { run(*options); });
}

}  // namespace emblem
