#include "serve/http/status/status_history.h"

#include "core/system/caught_error.h"
#include "core/system/process.h"
#include "core/threads/start_thread.h"
#include "serve/protocol/encoding/json_writer.h"

namespace emblem {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

StatusHistory::StatusHistory(const InferenceService& service)
    : service_(service), thread_(start_thread("the status page's history", [this] { run(); })) {}

StatusHistory::~StatusHistory() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void StatusHistory::run() noexcept {
  const auto step = std::chrono::duration<double>(kStepSeconds);
  for (;;) {
    try {
      sample(seconds_since_1970());
    } catch (...) {
      log_caught("the status page's history");
    }
    std::unique_lock lock(mutex_);
    if (stop_.wait_for(lock, step, [&] { return is_stopped_; })) return;
  }
}

void StatusHistory::sample(double time_s) {
  const std::vector<ModelStatistics> statistics = service_.statistics("", "");
  const std::lock_guard lock(mutex_);
  const double seconds = time_s - last_time_s_;
  if (seconds <= 0) return;
  std::map<Key, Counts> now;
  LatencyHistogram latency;
  uint64_t failed = 0;
  for (const ModelStatistics& one : statistics) {
    const Key key(one.name, one.version);
    now[key] = {.latency = one.latency, .failed = one.fail.count};
    Counts before;  // a version that was loaded since has counted nothing
    if (const auto found = last_.find(key); found != last_.end() &&
                                            found->second.latency.count() <= one.latency.count() &&
                                            found->second.failed <= one.fail.count)
      before = found->second;
    latency.add(one.latency, before.latency);
    failed += one.fail.count - before.failed;
  }
  if (last_time_s_ > 0) {
    samples_.push_back({.time_s = time_s,
                        .rate = static_cast<double>(latency.count()) / seconds,
                        .p50_us = latency.quantile_us(0.5),
                        .p99_us = latency.quantile_us(0.99),
                        .failed = static_cast<double>(failed) / seconds,
                        .resident_bytes = resident_bytes()});
    if (samples_.size() > kMostSamples) samples_.pop_front();
  }
  last_ = std::move(now);
  last_time_s_ = time_s;
}

std::string StatusHistory::json() const {
  const std::lock_guard lock(mutex_);
  JsonWriter json;
  json.object([&] {
    json.key("step_s").number(kStepSeconds);
    json.key("samples").array([&] {
      for (const Sample& one : samples_) {
        json.array([&] {
          for (const double value : {one.time_s, one.rate, one.p50_us, one.p99_us, one.failed})
            json.number(value);
          json.number(one.resident_bytes);
        });
      }
    });
  });
  return std::move(json.text());
}

}  // namespace emblem
