#include "serve/http/status/metrics_text.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>

#include "core/system/caught_error.h"
#include "core/system/process.h"
#include "serve/http/status/metric_families.h"
#include "serve/protocol/metric_label.h"

namespace emblem {
namespace {

std::string labels_of(const ModelStatistics& one) {
  return fmt::format("model=\"{}\",version=\"{}\"", escaped_label(one.name),
                     escaped_label(one.version));
}

class Writer {
 public:
  explicit Writer(const std::vector<ModelStatistics>& models) : models_(models) {}

  template <class Value>
  void per_model(const char* name, const char* type, const char* help, Value value) {
    metrics_.describe(name, type, help);
    for (const ModelStatistics& one : models_)
      metrics_.add(name, labels_of(one), fmt::format("{}", value(one)));
  }

  template <class Value>
  void single(const char* name, const char* type, const char* help, Value value) {
    metrics_.describe(name, type, help);
    metrics_.add(name, "", fmt::format("{}", value));
  }

  void failures() {
    constexpr const char* kName = "nv_inference_request_failure";
    metrics_.describe(kName, "counter", "Failed inference requests, by reason");
    for (const ModelStatistics& one : models_) {
      const uint64_t named = one.rejected + one.cancelled;
      const uint64_t other = one.fail.count > named ? one.fail.count - named : 0;
      const auto line = [&](const char* reason, uint64_t count) {
        metrics_.add(kName, fmt::format("{},reason=\"{}\"", labels_of(one), reason),
                     std::to_string(count));
      };
      line("REJECTED", one.rejected);
      line("CANCELED", one.cancelled);
      line("BACKEND", 0);
      line("OTHER", other);
    }
  }

  void latency_summaries() {
    constexpr const char* kName = "nv_inference_request_summary_us";
    metrics_.describe(kName, "summary", "Latency of successful inference requests in microseconds");
    for (const ModelStatistics& one : models_) {
      const std::string labels = labels_of(one);
      for (const double quantile : {0.5, 0.9, 0.95, 0.99, 0.999})
        metrics_.add(kName, fmt::format("{},quantile=\"{}\"", labels, quantile),
                     fmt::format("{:.1f}", one.latency.quantile_us(quantile)));
      add_sum_and_count(kName, labels, one.success.ns / 1000, one.success.count);
    }
  }

  // Histograms in buckets of powers of two microseconds, from 32 us to 17 s.
  void latency_histograms() {
    constexpr const char* kName = "emblem_request_duration_seconds";
    constexpr size_t kFirst = 5, kLast = 24, kBucketsPerPower = 4;
    metrics_.describe(kName, "histogram", "Latency of successful inference requests");
    for (const ModelStatistics& one : models_) {
      const std::string labels = labels_of(one);
      uint64_t count = 0;
      size_t next = 0;
      for (size_t power = kFirst; power <= kLast; ++power) {
        for (; next < power * kBucketsPerPower; ++next) count += one.latency.buckets()[next];
        add_bucket(kName, labels, fmt::format("{:.6g}", std::exp2(power) * 1e-6), count);
      }
      add_bucket(kName, labels, "+Inf", one.latency.count());
      add_sum_and_count(kName, labels, static_cast<double>(one.success.ns) * 1e-9,
                        one.latency.count());
    }
  }

  void batch_histograms() {
    constexpr const char* kName = "emblem_batch_rows";
    constexpr uint64_t kLargest = 65536;
    metrics_.describe(kName, "histogram", "Rows of the batches that ran");
    for (const ModelStatistics& one : models_) {
      const std::string labels = labels_of(one);
      uint64_t count = 0, rows = 0;
      auto next = one.by_batch.begin();
      const auto take_up_to = [&](uint64_t size) {
        for (; next != one.by_batch.end() && next->first <= size; ++next) {
          count += next->second.compute_infer.count;
          rows += next->first * next->second.compute_infer.count;
        }
      };
      for (uint64_t size = 1; size <= kLargest; size *= 2) {
        take_up_to(size);
        add_bucket(kName, labels, std::to_string(size), count);
      }
      take_up_to(std::numeric_limits<uint64_t>::max());
      add_bucket(kName, labels, "+Inf", count);
      add_sum_and_count(kName, labels, rows, count);
    }
  }

  void add(const std::string& more) { metrics_.add_text(more); }

  std::string finish() const { return metrics_.text(); }

 private:
  void add_bucket(const std::string& name, const std::string& labels, const std::string& most,
                  uint64_t count) {
    metrics_.add(name + "_bucket", fmt::format("{},le=\"{}\"", labels, most),
                 std::to_string(count));
  }
  template <class Sum>
  void add_sum_and_count(const std::string& name, const std::string& labels, Sum sum,
                         uint64_t count) {
    metrics_.add(name + "_sum", labels, fmt::format("{}", sum));
    metrics_.add(name + "_count", labels, std::to_string(count));
  }

  const std::vector<ModelStatistics>& models_;
  MetricFamilies metrics_;
};

}  // namespace

double CpuUsage::share() {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(std::min<size_t>(line.size(), 4)));
  // user nice system idle iowait irq softirq steal
  uint64_t total = 0, idle = 0, value = 0;
  for (int i = 0; i < 8 && fields >> value; ++i) {
    total += value;
    if (i == 3 || i == 4) idle += value;
  }
  std::lock_guard lock(mutex_);
  if (total > total_) {
    const uint64_t busy = total - idle;
    last_ = busy > busy_ ? static_cast<double>(busy - busy_) / static_cast<double>(total - total_)
                         : 0.0;
    busy_ = busy;
    total_ = total;
  }
  return last_;
}

int64_t used_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kilobytes = 0, total = 0, available = 0;
  while (file >> name >> kilobytes) {
    if (name == "MemTotal:") total = kilobytes;
    if (name == "MemAvailable:") available = kilobytes;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return (total - available) * 1024;
}

std::string MetricsText::text() {
  const std::vector<ModelStatistics> models = service_.statistics("", "");
  Writer out(models);
  using Model = const ModelStatistics&;
  const auto us = [](const DurationCount& duration) { return duration.ns / 1000; };
  out.per_model("nv_inference_request_success", "counter", "Successful inference requests",
                [](Model m) { return m.success.count; });
  out.failures();
  out.per_model("nv_inference_count", "counter", "Inferences, each row of a batch counted",
                [](Model m) { return m.inference_count; });
  out.per_model("nv_inference_exec_count", "counter", "Batches that ran",
                [](Model m) { return m.execution_count; });
  out.per_model("nv_inference_pending_request_count", "gauge", "Requests in the queue",
                [](Model m) { return m.pending; });
  out.per_model("nv_inference_request_duration_us", "counter",
                "Sum of the durations of successful requests, queue included",
                [&](Model m) { return us(m.success); });
  out.per_model("nv_inference_queue_duration_us", "counter", "Sum of the times in the queue",
                [&](Model m) { return us(m.queue); });
  out.per_model("nv_inference_compute_input_duration_us", "counter",
                "Sum of the times to prepare inputs", [&](Model m) { return us(m.compute_input); });
  out.per_model("nv_inference_compute_infer_duration_us", "counter", "Sum of the times to compute",
                [&](Model m) { return us(m.compute_infer); });
  out.per_model("nv_inference_compute_output_duration_us", "counter",
                "Sum of the times to take out results",
                [&](Model m) { return us(m.compute_output); });
  out.latency_summaries();
  out.latency_histograms();
  out.batch_histograms();
  out.per_model("nv_model_load_duration_secs", "gauge", "How long loading the model took",
                [](Model m) { return m.load_seconds; });
  out.per_model("emblem_model_load_timestamp_seconds", "gauge",
                "When the version was loaded, in seconds since 1970",
                [](Model m) { return static_cast<double>(m.loaded_ms) / 1000; });
  out.single("nv_cpu_utilization", "gauge", "Busy share of the processors since the last scrape",
             cpu_.share());
  out.single("nv_cpu_memory_total_bytes", "gauge", "Memory of the machine", total_memory_bytes());
  out.single("nv_cpu_memory_used_bytes", "gauge", "Memory of the machine that is in use",
             used_memory_bytes());
  out.single("process_resident_memory_bytes", "gauge", "Memory of this process", resident_bytes());
  out.single("process_cpu_seconds_total", "counter", "Processor time of this process",
             cpu_seconds());
  out.add(service_.extra_metrics());
  return out.finish();
}

HttpHandler make_metrics_handler(const InferenceService& service) {
  const auto metrics = std::make_shared<MetricsText>(service);
  return [metrics](HttpRequest request, const HttpReply& reply) {
    const std::string_view path =
        std::string_view(request.target).substr(0, std::string_view(request.target).find('?'));
    if (path != "/metrics") return reply(error_response(404, "there is only /metrics here"));
    if (request.method != "GET") {
      HttpResponse response = error_response(405, "/metrics answers GET");
      response.headers.emplace_back("Allow", "GET");
      return reply(std::move(response));
    }
    HttpResponse response;
    response.content_type = MetricsText::kContentType;
    try {
      response.body = metrics->text();
    } catch (...) {
      response = error_response(caught_error());
    }
    reply(std::move(response));
  };
}

}  // namespace emblem
