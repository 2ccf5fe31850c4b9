#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "core/device.h"
#include "core/gpu.h"
#include "core/interrupt.h"
#include "core/text.h"
#include "serve/serving.h"

namespace emblem {
namespace {

struct Options {
  ServingOptions serving;
  std::string address = "0.0.0.0", control = "none", tls_certificate, tls_key, token;
  uint16_t http_port = 8000, grpc_port = 8001, metrics_port = 8002;
  std::string max_body = "64MiB", max_response = "1GiB";
  double exit_timeout = 30;
  std::string device = "cpu";
  std::vector<std::string> deltas;
};

ServingOptions serving_options(const Options& options) {
  ServingOptions serving = options.serving;
  using Control = ModelServerOptions::Control;
  serving.models.control = options.control == "poll"       ? Control::kPoll
                           : options.control == "explicit" ? Control::kExplicit
                                                           : Control::kAll;
  EMBLEM_REQUIRE(
      serving.models.models.empty() || serving.models.control == Control::kExplicit,
      "--load-model needs --model-control-mode explicit; in other modes all models are loaded");
  serving.models.on_gpu = options.device == "cuda";
  if (serving.models.on_gpu)
    dispatch(
        Device::kCuda, [] {}, [] { cuda::require_usable_gpu(); });
  EMBLEM_REQUIRE(serving.models.on_gpu || serving.models.precision.empty(),
                 "--precision needs --device cuda; a CPU computes in fp32");
  for (const std::string& text : options.deltas) {
    const size_t sign = text.find('=');
    EMBLEM_REQUIRE(sign != std::string::npos && sign > 0, "--deltas '", text,
                   "' is not of the form MODEL=FOLDER");
    serving.models.deltas[text.substr(0, sign)] = text.substr(sign + 1);
  }
  std::string token = options.token;
  if (const char* set = std::getenv("EMBLEM_TOKEN"); set != nullptr && token.empty()) token = set;
  const int64_t max_body = parse_size(options.max_body, "--max-request-size");
  serving.models.requests.max_answer_bytes =
      static_cast<uint64_t>(parse_size(options.max_response, "--max-response-size"));
  serving.metrics.threads = 1;
  for (HttpServerOptions* http : {&serving.http, &serving.metrics}) {
    http->address = options.address;
    http->max_body_bytes = static_cast<size_t>(max_body);
    http->tls_certificate = options.tls_certificate;
    http->tls_key = options.tls_key;
    http->bearer_token = token;
  }
  serving.http.port = options.http_port;
  serving.metrics.port = options.metrics_port;
  serving.grpc.address = options.address;
  serving.grpc.port = options.grpc_port;
  serving.grpc.max_message_bytes = max_body;
  serving.grpc.tls_certificate = options.tls_certificate;
  serving.grpc.tls_key = options.tls_key;
  serving.grpc.bearer_token = token;
  return serving;
}

void run(const Options& options) {
  const InterruptHandler handler;
  Serving serving(serving_options(options));
  const char* secure = options.tls_certificate.empty() ? "" : "s";
  const char* address = options.address.c_str();
  std::printf("http    http%s://%s:%u\n", secure, address, serving.http_port());
  std::printf("grpc    %s:%u\n", address, serving.grpc_port());
  std::printf("metrics http%s://%s:%u/metrics\n", secure, address, serving.metrics_port());
  for (const RepositoryEntry& entry : serving.models().index()) {
    std::printf("model   %s %s %s%s%s\n", entry.name.c_str(), entry.version.c_str(),
                entry.state.c_str(), entry.reason.empty() ? "" : ": ", entry.reason.c_str());
  }
  std::printf("ready\n");
  std::fflush(stdout);
  while (!interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::printf("finishing requests in progress\n");
  serving.drain(std::chrono::milliseconds(static_cast<int64_t>(options.exit_timeout * 1000)));
}

}  // namespace

void add_serve(Command& program) {
  auto options = std::make_shared<Options>();
  Command command = program.add_command(
      "serve", "Serve models: KServe v2 with Triton's extensions, over HTTP and gRPC");
  command
      .option("--models,--model-repository", options->serving.models.repository, "DIR",
              "Model repository: a folder that emblem export wrote models into")
      .required();
  command.option("--address", options->address, "ADDRESS", "Address to listen on");
  command.option("--http-port", options->http_port, "PORT", "Port for HTTP (0: any free one)");
  command.option("--grpc-port", options->grpc_port, "PORT", "Port for gRPC (0: any free one)");
  command.option("--metrics-port", options->metrics_port, "PORT",
                 "Port for Prometheus metrics (0: any free one)");
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
  command.option("--ps", options->serving.models.ps_config, "FILE",
                 "HPS's ps.json: stores of the tables, and models of backend hps");
  command.repeatable("--deltas", options->deltas, "MODEL=DIR",
                     "Apply row updates that training writes to DIR (repeatable)");
  command.choice("--device", options->device, {"cpu", "cuda"},
                 "cuda: compute all models on the GPU; cpu: those without an instance_group of "
                 "KIND_GPU on the CPU");
  command.choice("--precision", options->serving.models.precision, {"fp32", "bf16", "fp16"},
                 "With --device cuda: compute in this type (default: the model's parameter "
                 "precision, or fp32)");
  command
      .option("--http-threads", options->serving.http.threads, "N", "Threads for HTTP connections")
      .range(1, 1024);
  command.option("--grpc-threads", options->serving.grpc.threads, "N", "Threads for gRPC calls")
      .range(1, 1024);
  command
      .option("--max-connections", options->serving.http.max_connections, "N",
              "Maximum number of open HTTP connections")
      .positive();
  command.option("--max-request-size", options->max_body, "SIZE", "Largest request, decompressed");
  command.option("--max-response-size", options->max_response, "SIZE",
                 "Largest tensors that a request may be answered with");
  command.option("--tls-certificate", options->tls_certificate, "FILE",
                 "Certificate (PEM) for TLS on all ports; needs --tls-key");
  command.option("--tls-key", options->tls_key, "FILE", "Private key (PEM) of --tls-certificate");
  command.option("--token", options->token, "TOKEN",
                 "Refuse requests without this bearer token (better: the variable EMBLEM_TOKEN)");
  command
      .option("--exit-timeout-secs", options->exit_timeout, "SECONDS",
              "Seconds that requests in progress may take after Ctrl-C or SIGTERM")
      .range(0, 1e6);
  command.run([options] { run(*options); });
}

}  // namespace emblem
