// serve/protocol/tracing.h - traces of requests: settings with the names, values and messages of
// Triton, and the file that traces are written to.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace emblem {

struct TraceOptions {
  std::string file;  // empty: nothing is recorded, whatever the settings are
  bool timestamps = false, tensors = false;  // levels; tensors are not recorded
  uint32_t rate = 1000;                      // every rate-th request is traced
  int32_t count = -1;                        // traces that are left; below 0: no limit
  uint32_t log_frequency = 0;                // traces per file FILE.0, FILE.1, ...; 0: all in FILE

  bool operator==(const TraceOptions&) const = default;
};
// Options from the values of Triton's --trace-config: "triton,file=PATH", "level=TIMESTAMPS",
// "rate=100", "count=10", "triton,log-frequency=50". Throws kInvalidArgument; kUnsupported for
// other modes.
TraceOptions parse_trace_options(const std::vector<std::string>& texts);

// Settings by name, as the protocol writes them: trace_level has one or more values, the others
// one.
using TraceSettings = std::map<std::string, std::vector<std::string>>;
// Changes by name; without a value: that of the server, and for the server that of its start.
using TraceChanges = std::map<std::string, std::optional<std::vector<std::string>>>;

// When the parts of a request began and ended; filled by those who do the work.
struct RequestTimes {
  using Time = std::chrono::steady_clock::time_point;
  Time start, queued, compute_start, input_end, infer_end, compute_end, end;
};

// One request that is being traced.
struct RequestTrace {
  std::string model, version, id;
  RequestTimes times;
};

// Thread-safe.
class Tracing {
 public:
  Tracing();
  ~Tracing();

  // Called before there are requests. Throws when the file cannot be written.
  void start(const TraceOptions& options);

  // `model` empty: of the server.
  TraceSettings settings(const std::string& model) const;
  // Throws kInvalidArgument for values that cannot be read, kUnsupported for trace_file; nothing
  // changes then.
  void change(const std::string& model, const TraceChanges& changes);

  // Null unless this request of the model is to be traced.
  std::shared_ptr<RequestTrace> sample(const std::string& model);
  void write(const RequestTrace& trace);

 private:
  // What a client has chosen for the server or a model, and how far its sampling is.
  struct Chosen {
    std::optional<std::pair<bool, bool>> levels;  // timestamps, tensors
    std::optional<uint32_t> rate;
    std::optional<int32_t> count;
    std::optional<uint32_t> log_frequency;
    uint64_t seen = 0;
  };

  static Chosen changed(Chosen chosen, const TraceChanges& changes);
  // Called with mutex_ held.
  TraceOptions effective(const std::string& model) const;
  void open_file(uint32_t log_frequency);
  void close_file();

  mutable std::mutex mutex_;
  TraceOptions options_;                  // options of the start
  std::map<std::string, Chosen> chosen_;  // by model; "": of the server
  std::atomic<bool> is_on_ = false;
  std::FILE* file_ = nullptr;
  uint64_t next_id_ = 1, next_file_ = 0;
  uint32_t traces_in_file_ = 0;
};

}  // namespace emblem
