// serve/http/status/status_page.h - a page that shows in a browser, without anything from
// elsewhere, what a service does: models, rates, latencies, batches, hit rates.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "serve/http/status/metrics_text.h"
#include "serve/protocol/inference_service.h"

namespace emblem {

// HTML that asks for /history.json once and then for /status.json every second.
std::string_view status_page();

// Thread-safe.
class StatusSource {
 public:
  // `service` must outlive this.
  explicit StatusSource(const InferenceService& service) : service_(service) {}

  // Counts since the start, from which the page takes differences:
  //   {"server", "version", "ready", "uptime_s", "time_s", "cpu", "memory_used", "memory_total",
  //    "resident",
  //    "models": [{"name", "version", "state", "reason", counts and nanoseconds of statistics.h,
  //                "latency": [[bucket, count]...], "batches": [[size, count]...]}],
  //    "metrics": [{"name", "labels": {}, "value"}]}   <- InferenceService::extra_metrics()
  // The page has a row for each table that these metrics name in their labels; the others follow.
  std::string json();

 private:
  const InferenceService& service_;
  CpuUsage cpu_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace emblem
