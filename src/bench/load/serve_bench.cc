#include "bench/load/serve_bench.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "bench/load/target.h"
#include "core/math/divide.h"
#include "core/system/log.h"

namespace emblem {
namespace {

// A shared memory object, registered with the server during its lifetime. It is unlinked once the
// server has mapped it, so that nothing remains if this process is killed.
class LoadRegion {
 public:
  // `target` must outlive the region.
  LoadRegion(LoadTarget& target, const std::string& purpose, size_t bytes);
  ~LoadRegion();
  LoadRegion(const LoadRegion&) = delete;
  LoadRegion& operator=(const LoadRegion&) = delete;

  // Call after all bytes that the server reads are written.
  void register_with_server();

  const std::string& name() const { return name_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  LoadTarget& target_;
  std::string name_, key_;
  size_t size_;
  std::byte* data_ = nullptr;
  bool registered_ = false;
};

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return round_up(bytes, kAlignment); }

std::string unique_name(const std::string& purpose) {
  static std::atomic<int> next = 0;
  return cat("emblem_bench_", getpid(), "_", purpose, "_", next++);
}

LoadRegion::LoadRegion(LoadTarget& target, const std::string& purpose, size_t bytes)
    : target_(target),
      name_(unique_name(purpose)),
      key_("/" + name_),
      size_(std::max<size_t>(bytes, 1)) {
  const int fd = shm_open(key_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  const bool sized = fd >= 0 && ftruncate(fd, static_cast<off_t>(size_)) == 0;
  void* mapped =
      sized ? mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  const std::string problem = std::strerror(errno);
  if (fd >= 0) close(fd);
  if (mapped == MAP_FAILED) {
    shm_unlink(key_.c_str());
    throw Error(ErrorCode::kOutOfMemory,
                cat("cannot create ", size_, " bytes of shared memory: ", problem));
  }
  data_ = static_cast<std::byte*>(mapped);
}

LoadRegion::~LoadRegion() {
  if (!registered_) shm_unlink(key_.c_str());
  munmap(data_, size_);
  if (!registered_) return;
  try {
    target_.unregister_region(name_);
  } catch (const Error& error) {
    log_warn(cat("shared memory region ", name_, " could not be unregistered: ", error.what()));
  }
}

void LoadRegion::register_with_server() {
  target_.register_region({name_, key_, 0, size_});
  registered_ = true;
  shm_unlink(key_.c_str());
}

// Copies all inputs into one region and makes the requests refer to it.
std::unique_ptr<LoadRegion> move_to_region(LoadTarget& target, std::vector<LoadRequest>& requests) {
  size_t total = 0;
  for (const LoadRequest& request : requests)
    for (const LoadInput& input : request.inputs) total += aligned(input.data.size());
  auto region = std::make_unique<LoadRegion>(target, "in", total);
  size_t at = 0;
  for (LoadRequest& request : requests) {
    for (const LoadInput& input : request.inputs) {
      std::copy(input.data.begin(), input.data.end(), region->bytes().begin() + at);
      request.input_parts.push_back({region->name(), at, input.data.size()});
      at += aligned(input.data.size());
    }
  }
  region->register_with_server();
  return region;
}

constexpr size_t kStableWindows = 3;
constexpr const char* kWrongAnswer = "wrong answer";

template <class T>
bool close_enough(const std::vector<std::byte>& a, std::span<const std::byte> b, double tolerance) {
  for (size_t at = 0; at < a.size(); at += sizeof(T)) {
    T x, y;
    std::memcpy(&x, a.data() + at, sizeof(T));
    std::memcpy(&y, b.data() + at, sizeof(T));
    if (!(std::abs(x - y) <= tolerance * std::abs(x)) && x != y) return false;
  }
  return true;
}

bool same_data(const OutputTensor& expected, std::span<const std::byte> data, double tolerance) {
  if (expected.data.size() != data.size()) return false;
  if (std::equal(data.begin(), data.end(), expected.data.begin())) return true;
  if (tolerance == 0) return false;
  if (expected.type == DataType::kFp32) return close_enough<float>(expected.data, data, tolerance);
  if (expected.type == DataType::kFp64) return close_enough<double>(expected.data, data, tolerance);
  return false;
}

// The requests, the first answer to each of them, and the shared memory.
struct Load {
  std::vector<LoadRequest> requests;
  std::vector<LoadAnswer> expected;
  int64_t rows = 0;  // rows of a request
  double tolerance = 0;
  std::unique_ptr<LoadRegion> inputs;  // null: tensors are in the messages
};

// One connection with its part of shared memory; compares answers with the expected ones.
class CheckedConnection {
 public:
  CheckedConnection(LoadTarget& target, const Load& load) : load_(load) {
    if (load.inputs != nullptr) place_outputs(target);
    connection_ = target.connect(load.requests, outputs_);
    known_good_.resize(load.requests.size());
  }

  LoadOutcome exchange(size_t request) {
    std::optional<std::string> error = connection_->send(request);
    const LoadClock::time_point ended = LoadClock::now();
    if (error) {
      // Logs one example of each kind of error.
      if (std::find(logged_.begin(), logged_.end(), *error) == logged_.end()) {
        logged_.push_back(*error);
        log_debug(cat("load: ", *error, ": ", connection_->failure_text()));
      }
      return {ended, std::move(error)};
    }
    if (!repeats_first_answer(request)) return {ended, kWrongAnswer};
    return {ended, std::nullopt};
  }

 private:
  void place_outputs(LoadTarget& target) {
    std::vector<size_t> sizes(load_.expected.at(0).outputs.size());
    for (const LoadAnswer& answer : load_.expected) {
      for (size_t i = 0; i < sizes.size(); ++i)
        sizes[i] = std::max(sizes[i], answer.outputs.at(i).data.size());
    }
    size_t total = 0;
    for (const size_t size : sizes) total += size;
    region_ = std::make_unique<LoadRegion>(target, "out", total);
    region_->register_with_server();
    size_t at = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      outputs_.push_back({load_.expected[0].outputs[i].name, {region_->name(), at, sizes[i]}});
      at += sizes[i];
    }
  }

  bool repeats_first_answer(size_t request) {
    const std::string_view raw = connection_->raw_answer();
    const bool is_known = !raw.empty() && raw == known_good_[request];
    if (is_known && region_ == nullptr) return true;
    const LoadAnswer& expected = load_.expected[request];
    LoadAnswer answer;
    if (!is_known) {
      try {
        answer = connection_->answer();
      } catch (const Error&) {
        return false;
      }
      if (answer.outputs.size() != expected.outputs.size()) return false;
    }
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
      const OutputTensor& wanted = expected.outputs[i];
      if (!is_known &&
          (answer.outputs[i].name != wanted.name || answer.outputs[i].type != wanted.type ||
           answer.outputs[i].shape != wanted.shape))
        return false;
      const std::span<const std::byte> data =
          region_ != nullptr ? region_->bytes().subspan(outputs_[i].part.offset, wanted.data.size())
                             : std::span<const std::byte>(answer.outputs[i].data);
      if (!same_data(wanted, data, load_.tolerance)) return false;
    }
    known_good_[request] = raw;
    return true;
  }

  const Load& load_;
  std::unique_ptr<LoadRegion> region_;
  std::vector<LoadOutput> outputs_;
  std::unique_ptr<LoadConnection> connection_;
  std::vector<std::string> known_good_;  // answers already found correct, by request
  std::vector<std::string> logged_;
};

Load prepare(LoadTarget& target, const ServeBenchOptions& options) {
  const ModelMetadata model = target.metadata();
  Load load;
  load.tolerance = options.tolerance;
  load.requests = make_load_requests(model, options.input);
  load.rows = rows_of(load.requests.at(0));
  const auto connection = target.connect(load.requests, {});
  for (size_t i = 0; i < load.requests.size(); ++i) {
    if (const auto error = connection->send(i))
      throw Error(ErrorCode::kUnavailable, cat("the server refuses request ", i, ": ", *error, ": ",
                                               connection->failure_text()));
    load.expected.push_back(connection->answer());
    const std::string problem =
        problem_with(load.expected.back(), model, rows_of(load.requests[i]));
    EMBLEM_REQUIRE(problem.empty(), "the answer to request ", i, " ", problem);
  }
  if (options.shared_memory) load.inputs = move_to_region(target, load.requests);
  return load;
}

// One measuring interval.
struct Measurement {
  double seconds = 0;
  LoadTally tally;
  std::optional<ServerCounts> server;
  int windows = 1;
  bool is_stable = true;
};

LatencySummary latency_of(const LoadTally& tally) {
  std::vector<double> latencies;
  for (const LoadSample& sample : tally.samples) latencies.push_back(sample.latency);
  return summarize(std::move(latencies));
}

Measurement between(const LoadLoop& loop, double from, double to,
                    const std::optional<ServerCounts>& before,
                    const std::optional<ServerCounts>& after) {
  Measurement measured{to - from, loop.tally(from, to), std::nullopt};
  if (before && after) measured.server = *after - *before;
  return measured;
}

Measurement measure_for(LoadTarget& target, LoadLoop& loop, double seconds) {
  const auto before = target.statistics();
  const double from = loop.now();
  loop.wait_until(from + seconds);
  const double to = loop.now();
  return between(loop, from, to, before, target.statistics());
}

// All `shape.most_requests`, from the start of the loop.
Measurement measure_all(LoadTarget& target, const LoadShape& shape,
                        const std::vector<LoadExchange>& exchanges, size_t requests) {
  const auto before = target.statistics();
  LoadLoop loop(shape, exchanges, requests);
  constexpr double kForever = 1e9;
  loop.wait_until(kForever);
  loop.stop();
  return between(loop, 0, loop.now(), before, target.statistics());
}

Measurement measure_until_stable(LoadTarget& target, LoadLoop& loop,
                                 const ServeBenchOptions& options) {
  std::vector<double> borders = {loop.now()};
  std::vector<std::optional<ServerCounts>> counts = {target.statistics()};
  std::vector<LoadWindow> windows;
  bool stable = false;
  while (!stable && static_cast<int>(windows.size()) < options.max_windows) {
    loop.wait_until(borders.back() + options.window);
    borders.push_back(loop.now());
    counts.push_back(target.statistics());
    const double from = borders[borders.size() - 2], to = borders.back();
    windows.push_back({to - from, latency_of(loop.tally(from, to))});
    stable = is_stable(windows, kStableWindows, options.stability);
  }
  const size_t used = std::min(kStableWindows, windows.size());
  const size_t first = borders.size() - 1 - used;
  Measurement measured =
      between(loop, borders[first], borders.back(), counts[first], counts.back());
  measured.windows = static_cast<int>(windows.size());
  measured.is_stable = stable;
  return measured;
}

Measurement run_load(LoadTarget& target, const Load& load, const ServeBenchOptions& options,
                     const LoadShape& shape, int connections) {
  std::vector<std::unique_ptr<CheckedConnection>> checked;
  std::vector<LoadExchange> exchanges;
  for (int i = 0; i < connections; ++i) {
    checked.push_back(std::make_unique<CheckedConnection>(target, load));
    exchanges.push_back([connection = checked.back().get()](size_t request) {
      return connection->exchange(request);
    });
  }
  if (options.requests > 0) {
    {
      LoadLoop loop(shape, exchanges, load.requests.size());
      loop.wait_until(options.warmup);
    }
    LoadShape counted = shape;
    counted.most_requests = options.requests;
    return measure_all(target, counted, exchanges, load.requests.size());
  }
  LoadLoop loop(shape, exchanges, load.requests.size());
  loop.wait_until(options.warmup);
  return options.seconds > 0 ? measure_for(target, loop, options.seconds)
                             : measure_until_stable(target, loop, options);
}

void add_server_side(const ServerCounts& counts, double mean_latency, BenchResult& result) {
  const auto mean = [](const DurationCount& duration) {
    return duration.count == 0
               ? 0.0
               : static_cast<double>(duration.ns) * 1e-9 / static_cast<double>(duration.count);
  };
  if (counts.success.count == 0) return;
  result.stages = {{"queue", mean(counts.queue)},
                   {"compute input", mean(counts.compute_input)},
                   {"compute infer", mean(counts.compute_infer)},
                   {"compute output", mean(counts.compute_output)},
                   // Protocol, network and client.
                   {"outside", std::max(0.0, mean_latency - mean(counts.success))}};
  const double rows = static_cast<double>(counts.rows);
  result.metrics.push_back(
      {"server_rows_per_batch",
       {rows / static_cast<double>(std::max<uint64_t>(1, counts.executions)), "rows"}});
}

BenchResult to_result(const ServeBenchOptions& options, const Load& load, const LoadShape& shape,
                      int connections, const Measurement& measured) {
  const bool is_open = shape.rate > 0;
  const std::string protocol = options.target.protocol == LoadProtocol::kHttp ? "http" : "grpc";
  const LatencySummary latency = latency_of(measured.tally);
  int64_t errors = 0;
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : measured.tally.errors) {
    errors += count;
    kinds.push_back(cat(kind, ": ", count));
  }
  BenchResult result =
      begin_result("serve", cat(options.target.model, "-", protocol,
                                options.shared_memory ? "-shm" : "", "-b", load.rows, "-",
                                is_open ? "r" : "c", is_open ? cat(shape.rate) : cat(connections)));
  result.settings = {{"url", options.target.url},
                     {"model", options.target.model},
                     {"protocol", protocol},
                     {"rows", load.rows},
                     {"different_requests", static_cast<int64_t>(load.requests.size())},
                     {"shared_memory", options.shared_memory},
                     {"connections", int64_t{connections}},
                     {"requests", static_cast<int64_t>(latency.count)},
                     {"windows", int64_t{measured.windows}},
                     {"stable", measured.is_stable},
                     {"errors_by_kind", kinds},
                     {"references", std::vector<std::string>{"serve-hps"}}};
  if (is_open) {
    result.settings.push_back({"rate", shape.rate});
    result.settings.push_back(
        {"arrivals",
         std::string(shape.arrivals == ArrivalKind::kPoisson ? "poisson" : "constant")});
  }
  const double rate = static_cast<double>(latency.count) / std::max(1e-9, measured.seconds);
  const auto time = [](double value) { return Measure{value, "s", Better::kLower}; };
  result.metrics = {{"requests_per_second", {rate, "requests/s"}},
                    {"rows_per_second", {rate * static_cast<double>(load.rows), "rows/s"}},
                    {"p50", time(latency.p50)},
                    {"p90", time(latency.p90)},
                    {"p95", time(latency.p95)},
                    {"p99", time(latency.p99)},
                    {"p99.9", time(latency.p999)},
                    {"max", time(latency.max)},
                    {"mean", time(latency.mean)},
                    {"errors", {static_cast<double>(errors), "", Better::kLower}}};
  if (is_open) {
    std::vector<double> lags;
    for (const LoadSample& sample : measured.tally.samples) lags.push_back(sample.send_lag);
    result.metrics.push_back({"send_lag_p99", time(summarize(std::move(lags)).p99)});
  }
  if (measured.server) add_server_side(*measured.server, latency.mean, result);
  return result;
}

void check(const ServeBenchOptions& options) {
  EMBLEM_REQUIRE(!options.concurrency.empty() || !options.rates.empty(),
                 "bench serve needs a --concurrency or a --rate");
  for (const int connections : options.concurrency)
    EMBLEM_REQUIRE(connections >= 1 && connections <= 4096, "--concurrency must be 1 to 4096, not ",
                   connections);
  for (const double rate : options.rates)
    EMBLEM_REQUIRE(rate > 0 && std::isfinite(rate), "--rate must be above 0, not ", rate);
  EMBLEM_REQUIRE(options.max_in_flight >= 1 && options.max_in_flight <= 4096,
                 "--max-in-flight must be 1 to 4096, not ", options.max_in_flight);
  EMBLEM_REQUIRE(
      options.seconds <= 0 || options.requests <= 0,
      "--seconds and --requests both set the length of the measurement; give one of them");
  EMBLEM_REQUIRE(options.window > 0 && options.max_windows >= 1,
                 "--window and --max-windows must be above 0");
  EMBLEM_REQUIRE(options.stability > 0, "--stability must be above 0, not ", options.stability);
}

}  // namespace

std::vector<BenchResult> bench_serve(const ServeBenchOptions& options) {
  check(options);
  const std::unique_ptr<LoadTarget> target = open_target(options.target);
  const Load load = prepare(*target, options);
  struct Point {
    LoadShape shape;
    int connections;
  };
  std::vector<Point> points;
  for (const double rate : options.rates)
    points.push_back({{rate, options.arrivals, options.input.seed, 0}, options.max_in_flight});
  if (options.rates.empty()) {
    for (const int connections : options.concurrency) points.push_back({{}, connections});
  }
  std::vector<BenchResult> results;
  for (const Point& point : points) {
    const Measurement measured = run_load(*target, load, options, point.shape, point.connections);
    results.push_back(to_result(options, load, point.shape, point.connections, measured));
  }
  return results;
}

void require_answers(const std::vector<BenchResult>& results) {
  const std::string prefix = cat(kWrongAnswer, ": ");
  for (const BenchResult& result : results) {
    const Setting* kinds = find_named(result.settings, "errors_by_kind");
    const Measure* rate = find_named(result.metrics, "requests_per_second");
    if (kinds == nullptr || rate == nullptr) continue;
    for (const std::string& kind : std::get<std::vector<std::string>>(*kinds)) {
      if (kind.starts_with(prefix))
        throw Error(ErrorCode::kCorruption,
                    cat(result.name, ": ", kind.substr(prefix.size()),
                        " answers differ from the first answer to the same request; if "
                        "rounding depends on the batch, set --tolerance 1e-5"));
    }
    if (rate->value == 0)
      throw Error(ErrorCode::kUnavailable, cat(result.name, ": no request was answered"));
  }
}

}  // namespace emblem
