// bench/load/target.h - a server under load: any that speaks the KServe v2 protocol with Triton's
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

// One request, made once and sent many times.
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

// What a server counted for the model since it was loaded, all versions asked for together.
struct ServerCounts {
  uint64_t rows = 0, executions = 0;
  DurationCount success, queue, compute_input, compute_infer, compute_output;
};
ServerCounts operator-(const ServerCounts& after, const ServerCounts& before);

// One connection, with one request under way. For one thread.
class LoadConnection {
 public:
  virtual ~LoadConnection() = default;

  // Sends and waits for the whole answer. Returns nothing, or what went wrong in a few words that
  // are the same for like failures ("HTTP 503", "UNAVAILABLE", "no connection"). After a failure
  // the connection is made anew.
  virtual std::optional<std::string> send(size_t request) = 0;
  // Of the last send, which must have succeeded. Throws when the answer makes no sense.
  virtual LoadAnswer answer() const = 0;
  // Where it can be had without work: bytes that are equal for equal answers. Otherwise empty.
  virtual std::string_view raw_answer() const { return {}; }
  // What the server said in the last failure.
  virtual const std::string& failure_text() const = 0;
};

class LoadTarget {
 public:
  virtual ~LoadTarget() = default;

  // All throw kUnavailable when the server cannot be reached, and what it says as kInvalidArgument.
  virtual ModelMetadata metadata() = 0;
  // Nothing where the server has no such extension.
  virtual std::optional<ServerCounts> statistics() = 0;
  virtual void register_region(const SystemRegion& region) = 0;
  virtual void unregister_region(const std::string& name) = 0;

  // The connection sends the requests of `requests` by number, with these outputs in shared memory.
  // `requests` must outlive it.
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

}  // namespace emblem
