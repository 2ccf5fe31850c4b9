#include <CLI/CLI.hpp>
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
  std::string max_body = "64MiB";
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
      "--load-model needs --model-control-mode explicit; otherwise all models are loaded");
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
  std::printf("finishing requests under way\n");
  serving.drain(std::chrono::milliseconds(static_cast<int64_t>(options.exit_timeout * 1000)));
}

}  // namespace

void add_serve(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "serve", "Answer inference requests: KServe v2 with Triton's extensions, over HTTP and gRPC");
  command
      ->add_option("--models,--model-repository", options->serving.models.repository,
                   "Model repository: a folder that emblem export wrote models into")
      ->required();
  command->add_option("--address", options->address, "Where to listen")->capture_default_str();
  command->add_option("--http-port", options->http_port, "0: any that is free")
      ->capture_default_str();
  command->add_option("--grpc-port", options->grpc_port)->capture_default_str();
  command->add_option("--metrics-port", options->metrics_port)->capture_default_str();
  command
      ->add_option("--model-control-mode", options->control,
                   "none: load all models at the start; poll: look for changes too; explicit: load "
                   "what --load-model and clients ask for")
      ->check(CLI::IsMember({"none", "poll", "explicit"}))
      ->capture_default_str();
  command
      ->add_option("--load-model", options->serving.models.models,
                   "With explicit: a model to load at the start (repeatable)")
      ->allow_extra_args(false);
  command
      ->add_option("--repository-poll-secs", options->serving.models.poll_seconds,
                   "With poll: seconds between looks")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  command->add_option("--ps", options->serving.models.ps_config,
                      "HPS's ps.json: databases for the tables, and models of backend hps");
  command
      ->add_option("--deltas", options->deltas,
                   "MODEL=FOLDER: apply row updates that training writes there (repeatable)")
      ->allow_extra_args(false);
  command
      ->add_option("--device", options->device,
                   "cuda: compute all models on the GPU; cpu: those without an instance_group of "
                   "KIND_GPU on the CPU")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      ->add_option("--precision", options->serving.models.precision,
                   "With --device cuda: compute in this type (default: the model's parameter "
                   "precision, or fp32)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command->add_option("--http-threads", options->serving.http.threads, "Threads for connections")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--grpc-threads", options->serving.grpc.threads)
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--max-connections", options->serving.http.max_connections)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--max-request-size", options->max_body, "Of a request, expanded")
      ->capture_default_str();
  command->add_option("--tls-certificate", options->tls_certificate, "PEM file; needs --tls-key");
  command->add_option("--tls-key", options->tls_key, "PEM file");
  command->add_option(
      "--token", options->token,
      "Refuse requests without this bearer token (better: the variable EMBLEM_TOKEN)");
  command
      ->add_option("--exit-timeout-secs", options->exit_timeout,
                   "How long requests under way may take after Ctrl-C or SIGTERM")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace emblem
