// serve/http/status/metrics_text.h - a service's statistics as Prometheus reads them, under the
// names that dashboards for Triton know.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "serve/http/message/message.h"
#include "serve/protocol/inference_service.h"

namespace emblem {

// The share of the machine's processors that was busy since the last call. Thread-safe.
class CpuUsage {
 public:
  CpuUsage() { share(); }
  double share();

 private:
  std::mutex mutex_;
  uint64_t busy_ = 0, total_ = 0;
  double last_ = 0;
};

// Bytes of the machine's memory that are in use.
int64_t used_memory_bytes();

// Thread-safe.
class MetricsText {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  // `service` must outlive this.
  explicit MetricsText(const InferenceService& service) : service_(service) {}
  std::string text();

 private:
  const InferenceService& service_;
  CpuUsage cpu_;
};

// A handler for an HttpServer that offers nothing but GET /metrics.
HttpHandler make_metrics_handler(const InferenceService& service);

}  // namespace emblem
