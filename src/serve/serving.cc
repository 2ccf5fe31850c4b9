#include "serve/serving.h"

#include "core/files/open_files.h"
#include "core/system/log.h"
#include "serve/engine/hps/hps_options.h"
#include "serve/engine/model_options.h"
#include "serve/engine/pipeline_servable.h"
#include "serve/engine/retrieval/index_servable.h"
#include "serve/http/routes.h"
#include "serve/http/status/health.h"
#include "serve/http/status/metrics_text.h"
#include "serve/net/connection_limits.h"
#include "serve/protocol/model_config.pb.h"
#include "serve/split/parts_servable.h"

namespace emblem {
namespace {

// Pause between attempts of a front end to load what table servers do not have yet.
constexpr double kRetrySeconds = 0.5;

// File descriptors that models, stores and shared memory may open later, and those of event loops.
constexpr size_t kReservedDescriptors = 64;
constexpr size_t kDescriptorsOfThread = 4;
constexpr size_t kSpareForHealth = 8;

// How many connections ports may have with the file descriptors that are left once models are
// loaded.
ConnectionLimits connections_of(const ServingOptions& options) {
  const size_t small_ports = options.health ? 2 : 1;
  const auto threads =
      static_cast<size_t>(options.http.threads + options.grpc.threads) + small_ports;
  size_t reserved = open_files() + kReservedDescriptors + threads * kDescriptorsOfThread;
  if (options.access.allow_shared_memory) reserved += options.shared_memory.max_regions;
  if (options.health) reserved += kSpareForHealth;
  const size_t limit = open_file_limit();
  const ConnectionLimits wanted{options.http.max_connections, options.metrics.max_connections};
  const ConnectionLimits fitting =
      fit_connections(wanted, 2, small_ports, limit > reserved ? limit - reserved : 0);
  if (fitting.each < wanted.each)
    log_warn(cat("--max-connections ", wanted.each, " is lowered to ", fitting.each,
                 ": a limit of ", limit, " open files allows no more; raise ulimit -n"));
  return fitting;
}

}  // namespace

// Members in the order in which each needs the ones before it; HTTP last, so that a client that
// finds it ready finds the others, too.
struct Serving::State {
  const Access access;
  MemoryBudget memory;
  std::unique_ptr<TableParts> table_parts;
  std::unique_ptr<TableServers> table_servers;
  ModelServer models;
  SharedMemoryRegions regions;
  const ConnectionLimits connections;
  HttpRoutes routes{models, regions, access};
  GrpcServer grpc;
  HttpServer metrics;
  std::optional<HttpServer> health;
  HttpServer http;

  explicit State(const ServingOptions& options)
      : access(options.access),
        memory(options.max_memory),
        table_parts(options.table_parts ? std::make_unique<TableParts>(*options.table_parts)
                                        : nullptr),
        table_servers(options.table_servers ? std::make_unique<TableServers>(*options.table_servers)
                                            : nullptr),
        models(with_split_tables(with_memory(options.models))),
        regions(with_memory(options.shared_memory)),
        connections(connections_of(options)),
        grpc(with_access_and_memory(options.grpc), models, regions),
        metrics(with_check(small_port(options.metrics),
                           [this](std::string_view, const Caller& caller) {
                             return refusal_of(access, Api::kMetrics, caller);
                           }),
                make_metrics_handler(models)),
        http(with_check(inference_port(options.http),
                        [this](std::string_view target, const Caller& caller) {
                          return routes.authorize(target, caller);
                        }),
             [this](HttpRequest request, HttpReply reply) {
               routes.handle(std::move(request), std::move(reply));
             }) {
    if (options.health)
      health.emplace(with_check(health_port(*options.health),
                                [this](std::string_view, const Caller& caller) {
                                  return refusal_of(access, Api::kHealth, caller);
                                }),
                     make_health_handler(models));
  }

  HttpServerOptions with_memory(HttpServerOptions options) {
    options.memory_budget = &memory;
    return options;
  }
  HttpServerOptions inference_port(HttpServerOptions options) {
    options = with_memory(std::move(options));
    options.max_connections = connections.each;
    options.takes_payload = [this](std::string_view target) {
      return routes.takes_payload(target);
    };
    return options;
  }
  HttpServerOptions small_port(HttpServerOptions options) {
    options.max_connections = connections.small;
    return with_memory(std::move(options));
  }
  HttpServerOptions health_port(HttpServerOptions options) {
    options.spare_descriptors = kSpareForHealth;
    return small_port(std::move(options));
  }
  ModelServerOptions with_memory(ModelServerOptions options) {
    options.requests.memory = &memory;
    return options;
  }
  ModelServerOptions with_split_tables(ModelServerOptions options) const {
    if (table_parts != nullptr) {
      options.rows = table_parts.get();
      options.metrics = [this] { return table_parts->metrics(); };
      options.open = [this](const std::string& name, int64_t version, const std::string& folder,
                            const inference::ModelConfig& config, const std::string& where,
                            ParameterServer& tables) {
        check_splittable(config, where);
        return open_parts(name, version, folder, tables, *table_parts);
      };
    } else if (table_servers != nullptr) {
      options.metrics = [this] { return table_servers->metrics(); };
      options.retry_seconds = kRetrySeconds;
      options.open = [this](const std::string& name, int64_t version, const std::string& folder,
                            const inference::ModelConfig& config, const std::string& where,
                            ParameterServer&) {
        check_splittable(config, where);
        const ModelOptions of_model = model_options(config, *describe_version(folder), where);
        return with_index(open_pipeline(name, version, folder, of_model, *table_servers), version,
                          folder, of_model);
      };
    }
    return options;
  }
  static void check_splittable(const inference::ModelConfig& config, const std::string& where) {
    EMBLEM_REQUIRE(config.backend() != kHpsBackend, where,
                   ": models of backend hps cannot be split over table servers");
  }
  SharedMemoryOptions with_memory(SharedMemoryOptions options) {
    options.memory = &memory;
    return options;
  }
  GrpcServerOptions with_access_and_memory(GrpcServerOptions options) {
    options.access = &access;
    options.memory_budget = &memory;
    options.max_connections = connections.each;
    return options;
  }
  template <class Check>
  static HttpServerOptions with_check(HttpServerOptions options, Check check) {
    options.authorize = std::move(check);
    return options;
  }
};

Serving::Serving(const ServingOptions& options) {
  // Ports are checked before the models are loaded, which may take minutes.
  for (const uint16_t port : {options.http.port, options.grpc.port, options.metrics.port})
    check_port(options.http.address, port);
  if (options.health) check_port(options.health->address, options.health->port);
  check_tls(options.http);
  state_ = std::make_unique<State>(options);
}
Serving::~Serving() = default;

std::string host_and_port(const std::string& host, int port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? cat("[", host, "]:", port) : cat(host, ":", port);
}

uint16_t Serving::http_port() const { return state_->http.port(); }
uint16_t Serving::grpc_port() const { return state_->grpc.port(); }
uint16_t Serving::metrics_port() const { return state_->metrics.port(); }
uint16_t Serving::health_port() const { return state_->health ? state_->health->port() : 0; }
ModelServer& Serving::models() { return state_->models; }
const ModelServer& Serving::models() const { return state_->models; }
const MemoryBudget& Serving::memory() const { return state_->memory; }

void Serving::drain(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  const auto left = [&] {
    const auto rest = end - std::chrono::steady_clock::now();
    return std::max(std::chrono::milliseconds(0),
                    std::chrono::duration_cast<std::chrono::milliseconds>(rest));
  };
  state_->grpc.drain(left());
  state_->http.drain(left());
  state_->models.drain();
  state_->metrics.drain(std::chrono::milliseconds(0));
  if (state_->health) state_->health->drain(std::chrono::milliseconds(0));
}

}  // namespace emblem
