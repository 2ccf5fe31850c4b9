#include "emblem/server.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>

#include "core/device/device.h"
#include "core/device/gpu.h"
#include "core/files/temporary_folder.h"
#include "core/system/caught_error.h"
#include "core/text/text.h"
#include "data/source/remote_storage.h"
#include "data/source/uri.h"
#include "serve/repository/remote_repository.h"
#include "serve/serving.h"

namespace emblem::api {
namespace {

using std::chrono::milliseconds;

constexpr double kMostSeconds = 1e6;

// 0 for NaN.
milliseconds milliseconds_of(double seconds) {
  if (!(seconds > 0)) return milliseconds(0);
  return milliseconds(static_cast<int64_t>(std::min(seconds, kMostSeconds) * 1000));
}

uint16_t to_port(const char* option, int port) {
  EMBLEM_REQUIRE(port >= 0 && port <= 65535, option, " is ", port,
                 "; expected 0 (any free one) to 65535");
  return static_cast<uint16_t>(port);
}

void check_limits(const ServerOptions& options) {
  const auto require_positive = [](const char* option, int64_t value) {
    EMBLEM_REQUIRE(value > 0, option, " is ", value, "; expected at least 1");
  };
  const auto require_range = [](const char* option, auto value, auto least, auto most) {
    EMBLEM_REQUIRE(value >= least && value <= most, option, " is ", value, "; expected ", least,
                   " to ", most);
  };
  require_range("--http-threads", options.http_threads, 1, 1024);
  require_range("--grpc-threads", options.grpc_threads, 1, 1024);
  require_range("--health-port", options.health_port, -1, 65535);
  require_range("--slo-p99-us", options.slo_p99_us, 0, 60'000'000);
  require_range("--table-timeout-ms", options.table_timeout_ms, 1, 3'600'000);
  require_range("--keep-version-secs", options.keep_version_secs, 0.0, kMostSeconds);
  require_range("--repository-poll-secs", options.repository_poll_secs, 1e-3, kMostSeconds);
  require_range("--idle-timeout", options.idle_timeout, 1e-3, kMostSeconds);
  require_positive("--max-connections", options.max_connections);
  require_positive("--max-request-size", options.max_request_size);
  require_positive("--max-response-size", options.max_response_size);
  EMBLEM_REQUIRE(options.max_memory >= options.max_request_size, "--max-memory ",
                 options.max_memory, " is less than the --max-request-size of ",
                 options.max_request_size, "; a request of that size could never be answered");
  EMBLEM_REQUIRE(options.max_client_threads >= -1, "--max-client-threads is ",
                 options.max_client_threads, "; expected 0 or more, or -1 for the default");
  EMBLEM_REQUIRE(options.cache_size >= 0, "--cache-size is ", options.cache_size,
                 "; expected bytes, or 0 for a share of what is free");
}

void check_precisions(const ServerOptions& options) {
  for (const std::string& precision : {options.precision, options.row_precision})
    EMBLEM_REQUIRE(precision.empty() || parse_dtype(precision), "precision is \"", precision,
                   "\"; expected fp32, bf16, fp16 or int8");
  EMBLEM_REQUIRE(options.device == "cpu" || options.device == "cuda", "--device is \"",
                 options.device, "\"; expected cpu or cuda");
  EMBLEM_REQUIRE(options.precision != "fp16" || options.device == "cuda",
                 "--precision fp16 needs --device cuda; a CPU computes in fp32, bf16 or int8");
  EMBLEM_REQUIRE(options.precision != "int8" || options.device == "cpu",
                 "--precision int8 needs --device cpu; a GPU computes in fp32, bf16 or fp16");
}

AccessOptions access_of(const ServerOptions& options) {
  AccessOptions access;
  access.inference_token = options.token;
  access.control_token = options.control_token;
  for (const std::string& text : options.restricted_api)
    access.restricted.push_back(parse_restricted_apis(text));
  access.allow_shared_memory = !options.allow_shared_memory.empty();
  access.allow_remote_shared_memory = options.allow_remote_shared_memory;
  return access;
}

ModelServerOptions::Control control_of(const ServerOptions& options) {
  using Control = ModelServerOptions::Control;
  const std::string& mode = options.model_control_mode;
  EMBLEM_REQUIRE(mode == "none" || mode == "poll" || mode == "explicit",
                 "--model-control-mode is \"", mode, "\"; expected none, poll or explicit");
  EMBLEM_REQUIRE(
      options.load_model.empty() || mode == "explicit",
      "--load-model needs --model-control-mode explicit; in other modes all models are loaded");
  return mode == "poll" ? Control::kPoll : mode == "explicit" ? Control::kExplicit : Control::kAll;
}

ModelServerOptions models_of(const ServerOptions& options) {
  EMBLEM_REQUIRE(!options.models.empty(), "--models is empty; expected a model repository");
  ModelServerOptions models;
  models.repository = options.models;
  models.control = control_of(options);
  models.models = options.load_model;
  models.allow_item_changes = options.allow_item_changes;
  models.poll_seconds = options.repository_poll_secs;
  models.ps_config = options.ps;
  models.on_gpu = options.device == "cuda";
  if (models.on_gpu)
    dispatch(
        Device::kCuda, [] {}, [] { cuda::require_usable_gpu(); });
  models.strict_readiness = options.strict_readiness;
  if (options.max_client_threads >= 0) models.max_client_threads = options.max_client_threads;
  models.precision = options.precision;
  models.row_precision = options.row_precision;
  for (const auto& [model, folder] : options.deltas)
    EMBLEM_REQUIRE(!is_object_uri(folder), "--deltas '", model, "=", folder,
                   "' names a remote store; deltas are read from a folder of this machine: train "
                   "with a --model-dir that servers can read, or copy the deltas there");
  models.deltas = options.deltas;
  models.trace = parse_trace_options(options.trace_config);
  models.requests.max_answer_bytes = static_cast<uint64_t>(options.max_response_size);
  models.requests.slo_p99 = std::chrono::microseconds(options.slo_p99_us);
  return models;
}

void add_table_servers(const ServerOptions& options, ServingOptions& serving) {
  serving.table_servers.emplace();
  serving.table_servers->servers = parse_table_servers(options.table_servers);
  serving.table_servers->token = options.table_token;
  EMBLEM_REQUIRE(trim(options.table_token) == options.table_token,
                 "EMBLEM_TABLE_TOKEN begins or ends with a space or a line break, which no request "
                 "can send; remove it");
  serving.table_servers->timeout = milliseconds(options.table_timeout_ms);
  EMBLEM_REQUIRE(
      !options.table_tls_ca.empty() ||
          (options.table_tls_certificate.empty() && options.table_tls_key.empty()),
      "--table-tls-certificate and --table-tls-key need --table-tls-ca, which checks the "
      "certificates of table servers");
  if (!options.table_tls_ca.empty())
    serving.table_servers->tls = ClientTls{.ca = options.table_tls_ca,
                                           .certificate = options.table_tls_certificate,
                                           .key = options.table_tls_key};
}

// A table server or a front end of such.
void add_split_tables(const ServerOptions& options, ServingOptions& serving) {
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
  if (!is_table_server) return add_table_servers(options, serving);
  serving.table_parts = {
      .parts = parse_part_range(options.table_parts),
      .row_type = parse_dtype(serving.models.row_precision).value_or(DType::kF32),
      .keep = milliseconds_of(options.keep_version_secs),
      .max_answer_bytes = serving.models.requests.max_answer_bytes};
}

// A server that anyone may ask for inference is on loopback unless its owner says otherwise.
NetOptions network_of(const ServerOptions& options) {
  NetOptions net;
  net.address = !options.address.empty() ? options.address
                : options.token.empty()  ? "127.0.0.1"
                                         : "0.0.0.0";
  net.idle_timeout = milliseconds_of(options.idle_timeout);
  net.tls_certificate = options.tls_certificate;
  net.tls_key = options.tls_key;
  net.tls_client_ca = options.tls_client_ca;
  return net;
}

void add_ports(const ServerOptions& options, ServingOptions& serving) {
  const NetOptions net = network_of(options);
  static_cast<NetOptions&>(serving.http) = net;
  serving.http.port = to_port("--http-port", options.http_port);
  serving.http.threads = options.http_threads;
  serving.http.max_connections = static_cast<size_t>(options.max_connections);
  serving.http.max_body_bytes = static_cast<size_t>(options.max_request_size);
  static_cast<NetOptions&>(serving.grpc) = net;
  serving.grpc.port = to_port("--grpc-port", options.grpc_port);
  serving.grpc.threads = options.grpc_threads;
  serving.grpc.max_connections = serving.http.max_connections;
  serving.grpc.max_message_bytes = options.max_request_size;
  static_cast<NetOptions&>(serving.metrics) = net;
  serving.metrics.port = to_port("--metrics-port", options.metrics_port);
  serving.metrics.threads = 1;
  serving.metrics.workers = 0;
  serving.metrics.max_body_bytes = 4096;  // there is nothing to send
  serving.metrics.max_connections = 256;
  if (options.health_port < 0) return;
  serving.health = serving.metrics;
  serving.health->port = to_port("--health-port", options.health_port);
}

ServingOptions serving_of(const ServerOptions& options) {
  check_limits(options);
  check_precisions(options);
  ServingOptions serving;
  serving.models = models_of(options);
  serving.access = access_of(options);
  serving.shared_memory.max_tensor_bytes = static_cast<uint64_t>(options.max_request_size);
  serving.shared_memory.allowed_prefixes = options.allow_shared_memory;
  serving.max_memory = static_cast<size_t>(options.max_memory);
  add_ports(options, serving);
  add_split_tables(options, serving);
  return serving;
}

// Where the repository is in a remote store: the server works on a copy.
std::unique_ptr<RemoteRepository> open_remote(const ServerOptions& options,
                                              ModelServerOptions& models) {
  if (!is_object_uri(models.repository)) return nullptr;
  RemoteOptions store;
  store.cache_dir = options.cache_dir;
  store.cache_bytes = options.cache_size;
  store.endpoint = options.endpoint;
  auto remote =
      std::make_unique<RemoteRepository>(models.repository, std::make_shared<RemoteStorage>(store));
  models.repository = remote->local();
  models.refresh = [from = remote.get()] { return from->refresh(); };
  return remote;
}

ServerOptions with_models(ServerOptions options, const std::string& folder) {
  EMBLEM_REQUIRE(options.models.empty(), "a model is to be served, and the repository ",
                 options.models, "; expected one of them");
  options.models = folder;
  return options;
}

}  // namespace

struct Server::State {
  explicit State(const ServerOptions& given, std::unique_ptr<TemporaryFolder> copy = nullptr)
      : exported(std::move(copy)),
        options(serving_of(given)),
        remote(open_remote(given, options.models)),
        serving(options) {}

  void drain(milliseconds patience) {
    {
      std::unique_lock lock(mutex);
      if (std::exchange(is_draining, true)) {
        ended.wait(lock, [&] { return has_ended; });
        return;
      }
    }
    const End end{*this};
    if (remote != nullptr) remote->stop_trying_again();
    serving.drain(patience);
  }

  // Callers that wait for the end of a drain continue, also if it throws.
  struct End {
    State& state;
    ~End() {
      const std::lock_guard lock(state.mutex);
      state.has_ended = true;
      state.ended.notify_all();
    }
  };

  const std::unique_ptr<TemporaryFolder> exported;  // of a model that was given
  ServingOptions options;
  const std::unique_ptr<RemoteRepository> remote;  // null: the repository is on this machine
  Serving serving;
  std::mutex mutex;
  std::condition_variable ended;
  bool is_draining = false, has_ended = false;  // guarded by mutex
};

Server::Server(const ServerOptions& options) : state_(std::make_unique<State>(options)) {}

Server::Server(const Model& model, const std::string& name, const ServerOptions& options) {
  auto folder = std::make_unique<TemporaryFolder>("emblem_server");
  const ServerOptions serving = with_models(options, folder->path());
  EMBLEM_REQUIRE(is_model_name(name), "\"", printable(name), "\" is not a valid name of a model");
  model.export_to(folder->path() + "/" + name);
  state_ = std::make_unique<State>(serving, std::move(folder));
}

Server::~Server() {
  if (state_ == nullptr) return;
  try {
    state_->drain(milliseconds(0));
  } catch (...) {
    log_caught("end of a server");
  }
}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;

std::string Server::url() const {
  const HttpServerOptions& http = state_->options.http;
  return cat(http.tls_certificate.empty() ? "http" : "https", "://",
             host_and_port(http.address, http_port()));
}
std::string Server::address() const { return state_->options.http.address; }
int Server::http_port() const { return state_->serving.http_port(); }
int Server::grpc_port() const { return state_->serving.grpc_port(); }
int Server::metrics_port() const { return state_->serving.metrics_port(); }
int Server::health_port() const { return state_->serving.health_port(); }

bool Server::is_ready() const { return state_->serving.models().is_ready(); }

std::vector<ServedModel> Server::models() const {
  std::vector<ServedModel> models;
  for (const RepositoryEntry& entry : state_->serving.models().index())
    models.push_back({entry.name, entry.version, entry.state, entry.reason});
  return models;
}

void Server::reload() { state_->serving.models().look_for_changes(); }
void Server::load(const std::string& model) { state_->serving.models().load(model, {}); }
void Server::unload(const std::string& model) { state_->serving.models().unload(model); }

void Server::drain(double seconds) { state_->drain(milliseconds_of(seconds)); }

void Server::wait() {
  std::unique_lock lock(state_->mutex);
  state_->ended.wait(lock, [&] { return state_->has_ended; });
}

}  // namespace emblem::api
