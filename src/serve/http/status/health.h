// serve/http/status/health.h - the answers to health checks. Triton answers them with a status
// alone, KServe with JSON: clients of both find what they look at.
#pragma once

#include <string>

#include "serve/http/message/message.h"
#include "serve/protocol/inference_service.h"

namespace emblem {

HttpResponse live_response();
HttpResponse ready_response(bool is_ready);
HttpResponse model_ready_response(const std::string& model);

// A handler for a server that answers /v2/health/live and /v2/health/ready alone. The service
// must outlive it.
HttpHandler make_health_handler(const InferenceService& service);

}  // namespace emblem
