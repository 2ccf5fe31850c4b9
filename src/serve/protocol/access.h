// serve/protocol/access.h - who may use which part of the server, whatever protocol the request
// came by. Front ends ask before they read a request's body.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

// The groups of Triton's --http-restricted-api, and the metrics with the status page.
enum class Api {
  kHealth,
  kMetadata,
  kInference,
  kSharedMemory,
  kModelConfig,
  kModelRepository,  // index, load and unload
  kStatistics,
  kTrace,
  kLogging,
  kMetrics
};
inline constexpr size_t kApiCount = 10;

// "health", "metadata", "inference", "shared-memory", ... as the command line has them.
const char* name_of(Api api);

// Requests to these APIs must send the header `key` (in any case; over gRPC also as
// triton-grpc-protocol-KEY) with this value.
struct RestrictedApis {
  std::vector<Api> apis;
  std::string key, value;
};
// "API,API=KEY=VALUE" as Triton's --http-restricted-api has it, or "API,API:KEY=VALUE" as its
// --grpc-restricted-protocol. Throws kInvalidArgument.
RestrictedApis parse_restricted_apis(const std::string& text);

struct AccessOptions {
  // Opens metadata, inference, model-config, statistics and metrics; also all else where there is
  // no control token. Empty: these need no token.
  std::string inference_token;
  // Opens everything.
  std::string control_token;
  std::vector<RestrictedApis> restricted;
  bool allow_shared_memory = false;
  bool allow_remote_shared_memory = false;  // also for clients on other machines
};

// The client of a request. Views must be valid during the call only.
struct Caller {
  std::string_view authorization;  // the header of that name
  bool is_local = false;           // the peer is a loopback address or a Unix socket
  // The value of a header, named in lower case; empty where it is missing. May be null: no headers.
  std::function<std::string_view(const std::string& name)> header;
};

// Immutable, so that all threads may use one. Tokens and values are compared in constant time.
class Access {
 public:
  // Throws kInvalidArgument for an API that is restricted twice, or equal tokens.
  explicit Access(AccessOptions options);
  Access() : Access(AccessOptions{}) {}  // everything but shared memory is open

  // Returns when the caller may use the API; otherwise throws kUnauthenticated (no token, or a
  // wrong one) or kPermissionDenied. Health needs no token.
  void require(Api api, const Caller& caller) const;
  // Whether require() returns, for APIs other than shared memory.
  bool opens(Api api, const Caller& caller) const {
    return has_key(api, caller) && has_token(api, caller);
  }

  // Whether inference requests of this caller may name regions of shared memory; the same, throwing
  // kPermissionDenied.
  bool may_use_shared_memory(bool is_local) const {
    return options_.allow_shared_memory && (is_local || options_.allow_remote_shared_memory);
  }
  void require_shared_memory(bool is_local) const;

  // Whether a caller may have to show a token or a key: if not, headers need not be looked at.
  bool needs_credentials() const;
  bool allows_shared_memory() const { return options_.allow_shared_memory; }

 private:
  bool has_token(Api api, const Caller& caller) const;
  bool has_key(Api api, const Caller& caller) const;
  void require_token(Api api, const Caller& caller) const;
  void require_key(Api api, const Caller& caller) const;

  AccessOptions options_;
  std::array<std::optional<size_t>, kApiCount> restricted_;  // at in options_.restricted
};

}  // namespace emblem
