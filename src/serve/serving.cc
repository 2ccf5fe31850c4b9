#include "serve/serving.h"

#include "serve/engine/hps_options.h"
#include "serve/engine/model_options.h"
#include "serve/engine/pipeline_servable.h"
#include "serve/http/health.h"
#include "serve/http/metrics_text.h"
#include "serve/http/routes.h"
#include "serve/split/parts_servable.h"

namespace emblem {
namespace {

// Between attempts of a front end to load what table servers do not have yet.
constexpr double kRetrySeconds = 0.5;

}  // namespace

// In the order in which each needs the ones before it; HTTP last, so that a client that finds it
// ready finds the others, too.
struct Serving::State {
  const Access access;
  MemoryBudget memory;
  std::unique_ptr<TableParts> table_parts;
  std::unique_ptr<TableServers> table_servers;
  ModelServer models;
  SharedMemoryRegions regions;
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
        grpc(with_access_and_memory(options.grpc), models, regions),
        metrics(with_check(with_memory(options.metrics),
                           [this](std::string_view, const Caller& caller) {
                             return refusal_of(access, Api::kMetrics, caller);
                           }),
                make_metrics_handler(models)),
        http(with_check(with_memory(options.http),
                        [this](std::string_view target, const Caller& caller) {
                          return routes.authorize(target, caller);
                        }),
             [this](HttpRequest request, HttpReply reply) {
               routes.handle(std::move(request), std::move(reply));
             }) {
    if (options.health)
      health.emplace(with_check(with_memory(*options.health),
                                [this](std::string_view, const Caller& caller) {
                                  return refusal_of(access, Api::kHealth, caller);
                                }),
                     make_health_handler(models));
  }

  HttpServerOptions with_memory(HttpServerOptions options) {
    options.memory_budget = &memory;
    return options;
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
        return open_pipeline(name, version, folder,
                             model_options(config, *describe_pipeline(folder), where),
                             *table_servers);
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
    return options;
  }
  template <class Check>
  static HttpServerOptions with_check(HttpServerOptions options, Check check) {
    options.authorize = std::move(check);
    return options;
  }
};

Serving::Serving(const ServingOptions& options) {
  // Before the models are loaded, which may take minutes.
  for (const uint16_t port : {options.http.port, options.grpc.port, options.metrics.port})
    check_port(options.http.address, port);
  if (options.health) check_port(options.health->address, options.health->port);
  check_tls(options.http);
  state_ = std::make_unique<State>(options);
}
Serving::~Serving() = default;

uint16_t Serving::http_port() const { return state_->http.port(); }
uint16_t Serving::grpc_port() const { return state_->grpc.port(); }
uint16_t Serving::metrics_port() const { return state_->metrics.port(); }
uint16_t Serving::health_port() const { return state_->health ? state_->health->port() : 0; }
const ModelServer& Serving::models() const { return state_->models; }

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
