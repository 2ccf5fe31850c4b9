#include "bench/comm/comm_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "bench/comm/collective.h"
#include "bench/comm/floor.h"
#include "core/hash.h"
#include "core/interrupt.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBlocks = 10;  // of calls; each block ends with a barrier and gives one sample
constexpr int64_t kMostCalls = 10000;
// A copy of fewer bytes takes less time than any two threads need to notice each other.
constexpr size_t kLeastCopyFloor = size_t{64} << 10;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Equal on all ranks: what rank 0 found.
int64_t agree(Communicator& ranks, int64_t value) {
  ranks.broadcast(Context{}, {&value, sizeof(value)}, 0);
  return value;
}

// Seconds of one call, one sample a block, as rank 0 sees it.
struct CallTimes {
  std::vector<double> seconds;
  std::vector<double> host_seconds;  // until the call returns, which may be before it is done
};

template <class Call>
CallTimes time_calls(const Context& context, Communicator& ranks, double seconds,
                     const Call& call) {
  const auto finish = [&] {
    context.synchronize();
    ranks.barrier();
  };
  finish();
  auto start = Clock::now();
  for (int i = 0; i < 2; ++i) call();
  finish();
  const double estimate = std::max(seconds_since(start) / 2, 1e-7);
  const int64_t calls =
      agree(ranks, std::clamp(static_cast<int64_t>(std::ceil(seconds / kBlocks / estimate)),
                              int64_t{1}, kMostCalls));
  CallTimes times;
  for (int block = 0; block < kBlocks; ++block) {
    if (interrupted()) throw Error(ErrorCode::kCancelled, "bench comm: interrupted");
    start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) call();
    times.host_seconds.push_back(seconds_since(start) / static_cast<double>(calls));
    finish();
    times.seconds.push_back(seconds_since(start) / static_cast<double>(calls));
  }
  return times;
}

Measure measure_of(std::vector<double> samples, std::string unit, Better better) {
  Measure measure{mean_of(samples), std::move(unit), better, standard_deviation_of(samples)};
  measure.interval = mean_interval(samples);
  measure.samples = std::move(samples);
  return measure;
}

size_t hosts_of(const Communicator& ranks) {
  std::set<std::string> names;
  for (const RankHost& host : ranks.hosts()) names.insert(host.name);
  return names.size();
}

BenchResult result_of(const Context& context, const Communicator& ranks,
                      const std::string& collective, int64_t size, const CallTimes& times,
                      size_t received) {
  const bool on_gpu = context.device == Device::kCuda;
  const std::string ending = collective == "barrier" ? "" : cat("-", size);
  BenchResult result = begin_result("comm", cat(ranks.transport(), on_gpu ? "-cuda" : "", "-",
                                                ranks.size(), "-", collective, ending));
  result.settings = {{"transport", std::string(ranks.transport())},
                     {"device", cat(context.device)},
                     {"ranks", int64_t{ranks.size()}},
                     {"hosts", static_cast<int64_t>(hosts_of(ranks))},
                     {"collective", collective},
                     {"bytes", collective == "barrier" ? int64_t{0} : size},
                     {"received_bytes", static_cast<int64_t>(received)}};
  result.metrics = {{"seconds", measure_of(times.seconds, "s", Better::kLower)}};
  if (on_gpu)
    result.metrics.push_back({"host_seconds", measure_of(times.host_seconds, "s", Better::kLower)});
  if (received > 0 && collective != "barrier") {
    std::vector<double> rates;
    for (const double one : times.seconds) rates.push_back(static_cast<double>(received) / one);
    result.metrics.push_back(
        {"bytes_per_second", measure_of(std::move(rates), "B/s", Better::kHigher)});
  }
  return result;
}

class CommBench {
 public:
  CommBench(const Context& context, Communicator& ranks, const CommBenchOptions& options)
      : context_(context),
        ranks_(ranks),
        options_(options),
        floor_(make_floor(context, ranks, most_bytes())) {}

  BenchResult run(const std::string& name, int64_t size) {
    const auto collective = make_collective(context_, name, ranks_, static_cast<size_t>(size));
    collective->prepare();
    collective->run();
    collective->check();
    const CallTimes times =
        time_calls(context_, ranks_, options_.seconds, [&] { collective->run(); });
    BenchResult result = result_of(context_, ranks_, name, size, times, collective->received());
    add_floor(result, *collective, mean_of(times.seconds));
    return result;
  }

 private:
  size_t most_bytes() const {
    const int64_t largest = options_.sizes.empty() ? 8 : std::ranges::max(options_.sizes);
    return static_cast<size_t>(largest + ranks_.size() + 64);
  }

  void add_floor(BenchResult& result, const Collective& collective, double seconds) {
    if (floor_ == nullptr) return;
    if (floor_->name() == std::string("memory copy") && collective.received() < kLeastCopyFloor)
      return;
    const CallTimes times =
        time_calls(context_, ranks_, options_.seconds / 2, [&] { collective.run_floor(*floor_); });
    const double least = std::ranges::min(times.seconds);
    result.ceilings.push_back({cat(floor_->name(), " seconds"), least});
    result.shares.push_back({cat("of ", floor_->name()), least / seconds});
  }

  const Context& context_;
  Communicator& ranks_;
  const CommBenchOptions& options_;
  std::unique_ptr<CommFloor> floor_;
};

}  // namespace

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> names = {"exchange", "gather_all", "broadcast", "sum_all",
                                                 "barrier"};
  return names;
}

std::vector<std::string> collectives_of(Device device) {
  std::vector<std::string> names = collective_names();
  if (device == Device::kCuda) std::erase(names, "sum_all");
  return names;
}

uint64_t hash_of(const CommBenchOptions& options) {
  std::string text = cat("bench comm ", options.seconds);
  for (const std::string& name : options.collectives) text += " " + name;
  for (const int64_t size : options.sizes) text += cat(" ", size);
  return hash_string(text);
}

std::vector<BenchResult> bench_comm(const Context& context, Communicator& ranks,
                                    const CommBenchOptions& options,
                                    const std::function<void(const BenchResult&)>& show) {
  for (const int64_t size : options.sizes)
    EMBLEM_REQUIRE(size >= 1, "bench comm: a size of ", size, " bytes; at least 1 is required");
  const auto possible = collectives_of(context.device);
  const auto& collectives = options.collectives.empty() ? possible : options.collectives;
  for (const std::string& name : collectives)
    EMBLEM_REQUIRE(std::ranges::count(possible, name) > 0, "bench comm: there is no ", name,
                   " of memory of device ", context.device);
  CommBench bench(context, ranks, options);
  std::vector<BenchResult> results;
  for (const std::string& name : collectives) {
    const bool has_size = name != "barrier";
    for (const int64_t size : has_size ? options.sizes : std::vector<int64_t>{1}) {
      BenchResult result = bench.run(name, size);
      if (ranks.rank() != 0) continue;
      show(result);
      results.push_back(std::move(result));
    }
  }
  ranks.barrier();
  return results;
}

}  // namespace emblem
