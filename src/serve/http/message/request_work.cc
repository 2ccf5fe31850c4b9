#include "serve/http/message/request_work.h"

#include "core/system/caught_error.h"

namespace emblem {
namespace {

// Up to here a compressed body is expanded on the connection's thread.
constexpr size_t kShortCompressed = 4096;
constexpr size_t kShortExpanded = size_t{64} << 10;
// What a worker expands before it turns to the next job.
constexpr size_t kExpandedPerStep = size_t{1} << 20;
// Bytes of JSON that is read or written.
constexpr size_t kLongJson = size_t{64} << 10;
constexpr size_t kSmallestToCompress = 1024;
constexpr size_t kLongToCompress = size_t{16} << 10;

}  // namespace

HttpRequestWork::HttpRequestWork(const HttpHandler& handler, HttpRequest request, Body body,
                                 HttpReply reply)
    : handler_(handler),
      request_(std::move(request)),
      body_(std::move(body.bytes)),
      encoding_(body_.bytes.empty() ? ContentEncoding::kIdentity : body.encoding),
      max_expanded_(body.max_expanded),
      reply_(std::move(reply)) {}

bool HttpRequestWork::start() {
  if (encoding_ != ContentEncoding::kIdentity) {
    if (body_.bytes.size() > kShortCompressed) return false;
    if (!expand(kShortExpanded)) return is_answered_;
  }
  if (request_.json_bytes.value_or(body_.bytes.size()) > kLongJson) return false;
  call_handler();
  return true;
}

bool HttpRequestWork::step() {
  if (request_.cancelled && *request_.cancelled) return false;
  if (encoding_ != ContentEncoding::kIdentity && !expand(kExpandedPerStep)) return !is_answered_;
  call_handler();
  return false;
}

bool HttpRequestWork::expand(size_t bytes) {
  try {
    if (!expander_)
      expander_ = std::make_unique<HttpBodyExpander>(std::move(body_), encoding_,
                                                     request_.json_bytes.value_or(0), max_expanded_,
                                                     request_.memory_budget);
    switch (expander_->step(bytes)) {
      case HttpBodyExpander::State::kMore:
        return false;
      case HttpBodyExpander::State::kTooLarge:
        expander_.reset();
        is_answered_ = true;
        reply_(error_response(
            413, cat("the body has more than ", max_expanded_, " bytes when it is decompressed")));
        return false;
      case HttpBodyExpander::State::kComplete:
        break;
    }
    body_ = expander_->take();
    expander_.reset();
    encoding_ = ContentEncoding::kIdentity;
    return true;
  } catch (...) {
    refuse();
    return false;
  }
}

void HttpRequestWork::call_handler() {
  try {
    request_.body = body_.bytes;
    request_.memory = std::move(body_.memory);
    handler_(std::move(request_), reply_);
  } catch (...) {
    refuse();
  }
}

void HttpRequestWork::refuse() {
  expander_.reset();
  is_answered_ = true;
  reply_(error_response(caught_error()));
}

bool is_long_work(const HttpResponse& response, ContentEncoding accepted) {
  if (response.deferred) return response.deferred_json_bytes > kLongJson;
  return accepted != ContentEncoding::kIdentity && response.is_compressible &&
         body_bytes(response) > kLongToCompress;
}

HttpResponse finish_response(HttpResponse response, ContentEncoding accepted,
                             MemoryBudget* budget) {
  if (response.deferred) response = response.deferred();
  if (accepted != ContentEncoding::kIdentity && response.is_compressible &&
      body_bytes(response) >= kSmallestToCompress)
    compress_response(response, accepted, budget);
  return response;
}

}  // namespace emblem
