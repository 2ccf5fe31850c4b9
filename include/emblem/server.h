// emblem/server.h - a server in a process of one's own: KServe v2 with Triton's extensions over
// HTTP and gRPC (docs/serving.md), as `emblem serve` is.
//
//   Server server({.models = "models", .token = "secret"});
//   std::printf("%s\n", server.url().c_str());   // http://0.0.0.0:43611
//   server.wait();                               // until another thread calls drain()
//
// A process may have several. A Server installs no signal handlers: a program that shall end at
// Ctrl-C calls drain(), not in the handler itself.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emblem/api.h"
#include "emblem/model.h"

namespace emblem {
EMBLEM_PUBLIC {
  // The options of `emblem serve`, which errors call by their names there: --http-port is
  // http_port. An empty text is the default, or none where there is none; numbers are used as they
  // are, and are errors outside of the ranges that `emblem serve --help` names.
  struct ServerOptions {
    std::string models;  // the model repository: a folder that models were exported to, or s3://...

    // ---- addresses ----
    std::string address;  // empty: 127.0.0.1, or with a token 0.0.0.0
    int http_port = 0, grpc_port = 0, metrics_port = 0;  // 0: any free one
    int health_port = -1;  // for health checks alone, on a thread of its own; -1: none
    std::string tls_certificate, tls_key;  // files (PEM), on all ports
    std::string tls_client_ca;             // clients need a certificate that it signed

    // ---- access ----
    std::string token;          // requests need this bearer token; empty: none
    std::string control_token;  // and this one to control models, shared memory, traces and logs
    std::vector<std::string> restricted_api;       // "APIS=KEY=VALUE": these need the header KEY
    std::vector<std::string> allow_shared_memory;  // begins of names of objects, {""}: all of them
    bool allow_remote_shared_memory = false;       // also for clients on other machines

    // ---- models ----
    std::string model_control_mode = "none";  // or "poll", "explicit": load_model and clients' wish
    std::vector<std::string> load_model;      // with explicit: at the start
    double repository_poll_secs = 15;
    bool allow_item_changes = false;  // clients may change the items of served indexes
    int max_client_threads = -1;   // of engines that clients configure; -1: 4 per CPU, at least 16
    bool strict_readiness = true;  // ready only with models, all of them loaded
    std::string ps;                // HPS's ps.json: stores of the tables
    std::map<std::string, std::string> deltas;  // model to folder: row updates that training writes
    std::string device = "cpu";                 // "cuda": all models
    std::string precision, row_precision;   // "fp32", "bf16", "fp16", "int8"; empty: as models say
    int64_t slo_p99_us = 0;                 // latency target of dynamic batching; 0: none
    std::vector<std::string> trace_config;  // "file=PATH", "rate=100", ...

    // ---- limits ----
    int http_threads = 2, grpc_threads = 2;
    int64_t max_connections = 4096;                // of HTTP and of gRPC each
    int64_t max_request_size = int64_t{64} << 20;  // bytes, decompressed
    int64_t max_response_size = int64_t{1} << 30;  // bytes of tensors
    int64_t max_memory = int64_t{2} << 30;  // bytes of requests and answers of all clients together
    double idle_timeout = 120;              // seconds that a connection may be without a request

    // ---- tables on several machines ----
    std::string table_parts;    // be a table server of these parts: "0-1364", "1/3"
    std::string table_servers;  // be a front end of these: "HOST:PORT,..."
    std::string table_token;    // which they want
    std::string table_tls_ca, table_tls_certificate, table_tls_key;
    int64_t table_timeout_ms = 1000;
    double keep_version_secs = 30;

    // ---- remote repositories ----
    std::string cache_dir;   // empty: EMBLEM_CACHE, or the user's cache folder
    int64_t cache_size = 0;  // bytes; 0: 80 % of what is free
    std::string endpoint;    // of an S3- or GCS-compatible store
  };

  struct ServedModel {
    std::string name, version;
    std::string state;   // "READY", "LOADING", "UNLOADING", "UNAVAILABLE"
    std::string reason;  // why it is not ready
  };

  // Thread-safe.
  class EMBLEM_API Server {
   public:
    // Checks options and ports, loads the models, then listens. A model that cannot be loaded is
    // logged and listed by models(); all else that is wrong is an Error, and nothing runs:
    // kInvalidArgument for options, kUnavailable for a port in use, kUnsupported in a build without
    // a server.
    explicit Server(const ServerOptions& options);
    // Serves a model as `name`, as it is now: from a copy in a temporary folder, which goes with
    // the server. options.models is empty.
    Server(const Model& model, const std::string& name, const ServerOptions& options = {});
    ~Server();  // drain(0)
    Server(Server&&) noexcept;
    Server& operator=(Server&&) noexcept;

    std::string url() const;      // "http://127.0.0.1:8000", https with TLS
    std::string address() const;  // that it listens on
    int http_port() const;
    int grpc_port() const;  // 0: this build has no gRPC
    int metrics_port() const;
    int health_port() const;  // 0: there is none

    // As /v2/health/ready answers; false once it is drained.
    bool is_ready() const;
    std::vector<ServedModel> models() const;

    // Brings what is served up to date with the repository: loads models and versions that are new
    // or have changed, and unloads those that are gone. With model_control_mode "explicit", of the
    // models that are loaded. No request fails because of it; a version that cannot be loaded is
    // listed by models(), and the one before runs on.
    void reload();
    // With model_control_mode "explicit". Throw Error with the reason where it cannot be done.
    void load(const std::string& model);
    void unload(const std::string& model);

    // Accepts nothing new, and gives requests in progress their answers for up to `seconds`, at
    // most a million. Ports are closed afterwards. Further calls wait for the first.
    void drain(double seconds = 30);
    // Returns once drain() has.
    void wait();

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

}  // namespace api
}  // namespace emblem
