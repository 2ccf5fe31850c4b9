// serve/grpc/methods.h - the calls that the server answers: one table.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "serve/protocol/access.h"

namespace google::protobuf {
class Message;
}

namespace emblem {

struct GrpcFrontEnd;

// Reads a request, and returns the response. Throws Error. On any thread.
using GrpcAnswer = std::function<std::unique_ptr<google::protobuf::Message>(
    GrpcFrontEnd&, std::span<const std::byte>)>;

struct GrpcMethod {
  enum class Kind {
    kAnswer,      // one request, one response
    kAnswerEach,  // a stream of requests, each with its response
    kInfer,
    kInferStream,
    kHealthWatch,
  };
  Kind kind = Kind::kAnswer;
  Api api = Api::kHealth;
  GrpcAnswer answer;     // answer for kAnswer and kAnswerEach
  bool is_slow = false;  // it may take as long as a model needs to be loaded
  // Requests bring tensors or files, and may have all the bytes that the server takes; others have
  // at most kSmallRequestBytes.
  bool has_payload = false;

  bool takes_stream() const { return kind == Kind::kAnswerEach || kind == Kind::kInferStream; }
  // As long as the client likes.
  bool stays_open() const { return takes_stream() || kind == Kind::kHealthWatch; }
};

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Methods by path: "/inference.GRPCInferenceService/ModelInfer".
using GrpcMethods = std::unordered_map<std::string, GrpcMethod, StringHash, std::equal_to<>>;

GrpcMethods grpc_methods();

}  // namespace emblem
