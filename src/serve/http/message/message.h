// serve/http/message/message.h - what passes between HttpServer and those who answer.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emblem/error.h"
#include "serve/protocol/access.h"
#include "serve/protocol/memory_budget.h"

namespace emblem {

struct HttpRequest {
  std::string method;  // "GET"; HEAD arrives as "GET"
  std::string target;  // "/path?query", percent-encoded
  // Whole, and expanded where it came compressed. Its part after `json_bytes` begins at a multiple
  // of 64.
  std::span<const std::byte> body;
  std::optional<size_t> json_bytes;  // value of the header Inference-Header-Content-Length
  // Keeps the body alive, and its bytes counted in the server's memory budget.
  std::shared_ptr<const void> memory;
  MemoryBudget* memory_budget = nullptr;  // for what is made of the body; null: no limit
  // Becomes true when the client goes away before the reply.
  std::shared_ptr<std::atomic<bool>> cancelled;
  bool is_local = false;         // the client is on this machine; see Caller
  bool may_use_regions = false;  // its tensors may be in shared memory
};

struct HttpResponse {
  int status = 200;
  const char* content_type = "application/json";
  std::vector<std::pair<const char*, std::string>> headers;  // further ones
  std::string body;
  std::vector<std::vector<std::byte>> tensors;  // sent after the body, without a copy
  // What body and tensors take of the server's memory budget, as far as that was taken when they
  // were made. Null: nothing was.
  std::shared_ptr<MemoryBudget::Lease> memory;
  // Whether the client expects it compressed if it sent Accept-Encoding. Triton does that for the
  // results of inference alone, and its clients decompress nothing else.
  bool is_compressible = false;
  // When set, makes the response that is sent in the place of this one, on the connection's thread
  // or one of its server's workers: writing many numbers as JSON must not hold up those who compute
  // them. Must not throw.
  std::function<HttpResponse()> deferred;
  size_t deferred_json_bytes = 0;  // no fewer than `deferred` writes; 0: very few
};

// Called once, from any thread, also after the server is gone.
using HttpReply = std::function<void(HttpResponse)>;
// Called by the threads of a server; for large JSON bodies by its workers. Must not block: it keeps
// other connections waiting. What it throws before it has replied is sent as the reply.
using HttpHandler = std::function<void(HttpRequest, HttpReply)>;

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

HttpResponse json_response(std::string json);
// {"error": message}
HttpResponse error_response(int status, std::string_view message);
HttpResponse error_response(const Error& error);
// What Access::require refuses; nullopt: the caller may.
std::optional<HttpResponse> refusal_of(const Access& access, Api api,
                                       const Caller& caller) noexcept;

}  // namespace emblem
