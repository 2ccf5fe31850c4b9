// serve/serving.h - a whole server: models, HTTP, gRPC, metrics.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "ps/remote/table_servers.h"
#include "serve/grpc/server.h"
#include "serve/http/server.h"
#include "serve/protocol/access.h"
#include "serve/protocol/shared_memory.h"
#include "serve/repository/model_server.h"
#include "serve/split/table_parts.h"

namespace emblem {

struct ServingOptions {
  AccessOptions access;  // access to all ports
  ModelServerOptions models;
  HttpServerOptions http;
  HttpServerOptions metrics;
  std::optional<HttpServerOptions> health;  // a port for health checks alone
  GrpcServerOptions grpc;
  SharedMemoryOptions shared_memory;
  // Bytes that the requests and answers of all clients may hold together.
  size_t max_memory = size_t{2} << 30;
  // A table server, or a front end of such, or neither.
  std::optional<TablePartsOptions> table_parts;
  std::optional<TableServersOptions> table_servers;
};

// "127.0.0.1:8000", "[::1]:8000".
std::string host_and_port(const std::string& host, int port);

// Loads the models, then listens.
class Serving {
 public:
  explicit Serving(const ServingOptions& options);
  ~Serving();

  uint16_t http_port() const;
  uint16_t grpc_port() const;
  uint16_t metrics_port() const;
  uint16_t health_port() const;  // 0: there is none
  ModelServer& models();
  const ModelServer& models() const;
  const MemoryBudget& memory() const;

  // Accepts nothing new and gives requests under way their answers, for as long as `patience`.
  void drain(std::chrono::milliseconds patience);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem
