#include "serve/http/message/message.h"

#include "core/system/caught_error.h"
#include "serve/protocol/encoding/json_writer.h"
#include "serve/protocol/status.h"

namespace emblem {

HttpResponse json_response(std::string json) {
  HttpResponse response;
  response.body = std::move(json);
  return response;
}

HttpResponse error_response(int status, std::string_view message) {
  JsonWriter json;
  json.object([&] { json.key("error").string(shortened(message)); });
  HttpResponse response = json_response(std::move(json.text()));
  response.status = status;
  return response;
}

HttpResponse error_response(const Error& error) {
  HttpResponse response = error_response(http_status(error.code()), error.what());
  if (error.code() == ErrorCode::kUnauthenticated)
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

std::optional<HttpResponse> refusal_of(const Access& access, Api api,
                                       const Caller& caller) noexcept {
  try {
    access.require(api, caller);
    return std::nullopt;
  } catch (...) {
    return error_response(caught_error());
  }
}

}  // namespace emblem
