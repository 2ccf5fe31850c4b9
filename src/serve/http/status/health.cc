#include "serve/http/status/health.h"

#include "serve/protocol/encoding/json_writer.h"

namespace emblem {

HttpResponse live_response() { return json_response(R"({"live":true})"); }

HttpResponse ready_response(bool is_ready) {
  HttpResponse response = json_response(is_ready ? R"({"ready":true})" : R"({"ready":false})");
  if (!is_ready) response.status = 400;
  return response;
}

HttpResponse model_ready_response(const std::string& model) {
  JsonWriter json;
  json.object([&] {
    json.key("name").string(model);
    json.key("ready").boolean(true);
  });
  return json_response(std::move(json.text()));
}

HttpHandler make_health_handler(const InferenceService& service) {
  return [&service](const HttpRequest& request, const HttpReply& reply) {
    const std::string path = request.target.substr(0, request.target.find('?'));
    if (path == "/v2/health/live") return reply(live_response());
    if (path == "/v2/health/ready") return reply(ready_response(service.is_ready()));
    reply(error_response(404, "this port answers /v2/health/live and /v2/health/ready alone"));
  };
}

}  // namespace emblem
