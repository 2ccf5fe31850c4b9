#include "core/system/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/device/gpu_activity.h"
#include "core/files/output_file.h"
#include "core/system/log.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kMostSpans = 4'000'000;
constexpr int kCpu = 1, kGpu = 2;  // "processes" of the trace

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// Microseconds, as the format wants them.
std::string event(const std::string& name, int process, uint64_t track, int64_t begin_ns,
                  int64_t end_ns, const std::string& arguments = "") {
  return fmt::format(R"({{"name":{},"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}{}}})",
                     quoted(name), process, track, static_cast<double>(begin_ns) * 1e-3,
                     static_cast<double>(end_ns - begin_ns) * 1e-3, arguments);
}

std::string name_of_track(const char* what, int process, uint64_t track, const std::string& name) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                     process, track, quoted(name));
}

}  // namespace

int64_t trace_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Trace::Trace(std::string path, Device device)
    : path_(std::move(path)), file_(std::make_unique<OutputFile>(path_)), start_ns_(trace_now()) {
  dispatch(
      device, [] {},
      [&] {
        gpu_ = std::make_shared<cuda::GpuActivity>();
        if (!gpu_->problem().empty())
          log_warn(cat("the trace will show the CPU alone: ", gpu_->problem()));
      });
}

Trace::~Trace() = default;

int Trace::thread_number() {
  const uint64_t id = std::hash<std::thread::id>{}(std::this_thread::get_id());
  const auto found = std::find(threads_.begin(), threads_.end(), id);
  if (found != threads_.end()) return static_cast<int>(found - threads_.begin());
  threads_.push_back(id);
  return static_cast<int>(threads_.size()) - 1;
}

void Trace::add(const char* name, int64_t begin_ns, int64_t end_ns) {
  const std::lock_guard lock(mutex_);
  if (spans_.size() >= kMostSpans) {
    ++left_out_;
    return;
  }
  spans_.push_back({name, begin_ns, end_ns, thread_number()});
}

void Trace::finish() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> events = {name_of_track("process_name", kCpu, 0, "CPU")};
  for (size_t i = 0; i < threads_.size(); ++i)
    events.push_back(
        name_of_track("thread_name", kCpu, i, i == 0 ? "training" : cat("thread ", i)));
  for (const Span& span : spans_)
    events.push_back(event(span.name, kCpu, static_cast<uint64_t>(span.thread),
                           span.begin_ns - start_ns_, span.end_ns - start_ns_));
  dispatch(
      gpu_ != nullptr ? Device::kCuda : Device::kCpu, [] {},
      [&] {
        std::set<uint32_t> streams;
        for (const cuda::GpuSpan& span : gpu_->stop()) {
          streams.insert(span.stream);
          events.push_back(event(
              span.name, kGpu, span.stream, span.begin_ns - start_ns_, span.end_ns - start_ns_,
              span.bytes > 0 ? cat(",\"args\":{\"bytes\":", span.bytes, "}") : ""));
        }
        left_out_ += gpu_->left_out();
        if (!streams.empty()) events.push_back(name_of_track("process_name", kGpu, 0, "GPU"));
        for (const uint32_t stream : streams)
          events.push_back(name_of_track("thread_name", kGpu, stream, cat("stream ", stream)));
      });
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (size_t i = 0; i < events.size(); ++i) text += (i > 0 ? ",\n" : "") + events[i];
  file_->write(text + "\n]}\n");
  file_->finish();
  if (left_out_ > 0)
    log_warn(cat(path_, " does not have the last ", left_out_, " events: it would be too large"));
}

}  // namespace emblem
