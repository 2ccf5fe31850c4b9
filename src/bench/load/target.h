// bench/load/target.h - a server under load: any with the KServe v2 protocol with Triton's
// binary tensors and statistics, over HTTP or gRPC.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/protocol/inference_service.h"
#include "serve/protocol/shared_memory.h"

namespace emblem {

// One request, prepared once and sent many times.
struct LoadInput {
  std::string name;
  DataType type = DataType::kFp32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

// A part of a region of shared memory, instead of bytes in the message.
struct RegionPart {
  std::string region;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct LoadRequest {
  std::vector<LoadInput> inputs;
  std::vector<RegionPart> input_parts;  // empty, or one for each input
};

// An output that goes to shared memory.
struct LoadOutput {
  std::string name;
  RegionPart part;
};

struct LoadAnswer {
  std::vector<OutputTensor> outputs;  // without data where that went to shared memory
};

// The server's statistics of the model since it was loaded, summed over versions.
struct ServerCounts {
  uint64_t rows = 0, executions = 0;
  DurationCount success, queue, compute_input, compute_infer, compute_output;
};
ServerCounts operator-(const ServerCounts& after, const ServerCounts& before);

// One connection with one request at a time. Not thread-safe.
class LoadConnection {
 public:
  virtual ~LoadConnection() = default;

  // Sends a request and waits for the whole answer. Returns nullopt, or the kind of error ("HTTP
  // 503", "UNAVAILABLE", "no connection"). Reconnects after a failure.
  virtual std::optional<std::string> send(size_t request) = 0;
  // The answer of the last send, which must have succeeded. Throws if the answer is invalid.
  virtual LoadAnswer answer() const = 0;
  // Bytes that are equal for equal answers, if available without decoding; otherwise empty.
  virtual std::string_view raw_answer() const { return {}; }
  // The server's message of the last failure.
  virtual const std::string& failure_text() const = 0;
};

class LoadTarget {
 public:
  virtual ~LoadTarget() = default;

  // All throw kUnavailable if the server cannot be reached, and kInvalidArgument with its message
  // if it refuses.
  virtual ModelMetadata metadata() = 0;
  // nullopt if the server does not have this extension.
  virtual std::optional<ServerCounts> statistics() = 0;
  virtual void register_region(const SystemRegion& region) = 0;
  virtual void unregister_region(const std::string& name) = 0;

  // The connection sends `requests` by index, with these outputs in shared memory. `requests` must
  // outlive it.
  virtual std::unique_ptr<LoadConnection> connect(const std::vector<LoadRequest>& requests,
                                                  const std::vector<LoadOutput>& outputs) = 0;
};

enum class LoadProtocol { kHttp, kGrpc };

struct LoadTargetOptions {
  LoadProtocol protocol = LoadProtocol::kHttp;
  std::string url;  // "host:port"; empty: localhost and the protocol's usual port
  std::string model, version;
  std::string token;  // sent as "authorization: Bearer TOKEN"
  double timeout_seconds = 30;
};

std::unique_ptr<LoadTarget> open_target(const LoadTargetOptions& options);

struct HostAndPort {
  std::string host, port;
};

// "host:port", "[::1]:8000", "host", with or without "http://". Throws for anything else.
HostAndPort parse_url(const std::string& url, const std::string& usual_port);

std::unique_ptr<LoadTarget> open_http_target(const LoadTargetOptions& options);
std::unique_ptr<LoadTarget> open_grpc_target(const LoadTargetOptions& options);

}  // namespace emblem
