#include "bench/comm/comm_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/comm/floor.h"
#include "comm/bytes.h"
#include "comm/communicator.h"
#include "comm/sum_all.h"
#include "core/math/hash.h"
#include "core/memory/buffer.h"
#include "core/memory/host_copy.h"
#include "core/system/interrupt.h"
#include "core/system/seconds_since.h"

namespace emblem {
namespace {

// One collective with its buffers, as the benchmark repeats it.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual void run() = 0;
  // Throws kInternal unless the answer of run() after prepare() is right.
  virtual void prepare() = 0;
  virtual void check() const = 0;
  // Bytes that a rank receives from others; on average where ranks differ.
  virtual size_t received() const = 0;
  // Moves as many bytes in as many steps without a communicator.
  virtual void run_floor(CommFloor& floor) const { floor.run(received()); }
};

unsigned char pattern(size_t from, size_t to, size_t i) {
  return static_cast<unsigned char>(from * 31 + to * 7 + i);
}

[[noreturn]] void wrong(const char* name, size_t at) {
  throw Error(ErrorCode::kInternal, cat("bench comm: ", name, " gave a wrong byte at ", at));
}

// A rank's buffer has a part for every rank.
class Parts {
 public:
  Parts(const Context& context, const Communicator& ranks, size_t bytes)
      : count(static_cast<size_t>(ranks.size())),
        part_bytes((bytes + count - 1) / count),
        context_(context),
        bytes_(context.device, static_cast<int64_t>(part_bytes * count)) {}

  Piece whole() { return {bytes_.data(), size()}; }
  Piece part(size_t rank) { return {bytes_.data() + rank * part_bytes, part_bytes}; }
  size_t size() const { return part_bytes * count; }

  // Byte i of part r becomes value(r, i).
  template <class Value>
  void fill(const Value& value) {
    std::vector<unsigned char> host(size());
    for (size_t i = 0; i < host.size(); ++i) host[i] = value(i / part_bytes, i % part_bytes);
    to_device(context_, host, bytes_.view());
  }
  // Throws unless byte i of part r is value(r, i).
  template <class Value>
  void check(const char* name, const Value& value) const {
    const std::vector<unsigned char> host = bytes_.to_host(context_);
    for (size_t i = 0; i < host.size(); ++i)
      if (host[i] != value(i / part_bytes, i % part_bytes)) wrong(name, i);
  }

  const size_t count, part_bytes;

 private:
  const Context& context_;
  Buffer<unsigned char> bytes_;
};

class Exchange : public Collective {
 public:
  Exchange(const Context& context, Communicator& ranks, size_t bytes)
      : context_(context),
        ranks_(ranks),
        sent_(context, ranks, bytes),
        received_(context, ranks, bytes) {
    for (size_t r = 0; r < sent_.count; ++r) {
      send_.push_back(sent_.part(r));
      receive_.push_back(received_.part(r));
    }
  }
  void run() override { ranks_.exchange(context_, send_, receive_); }
  void prepare() override {
    sent_.fill([&](size_t to, size_t i) { return pattern(own(), to, i); });
    received_.fill([](size_t, size_t) { return static_cast<unsigned char>(0); });
  }
  void check() const override {
    received_.check("exchange", [&](size_t from, size_t i) { return pattern(from, own(), i); });
  }
  size_t received() const override { return sent_.part_bytes * (sent_.count - 1); }

 private:
  size_t own() const { return static_cast<size_t>(ranks_.rank()); }

  const Context& context_;
  Communicator& ranks_;
  Parts sent_, received_;
  std::vector<Piece> send_, receive_;
};

class GatherAll : public Collective {
 public:
  GatherAll(const Context& context, Communicator& ranks, size_t bytes)
      : context_(context),
        ranks_(ranks),
        all_(context, ranks, bytes),
        mine_(context, ranks, all_.size()) {}
  void run() override { ranks_.gather_all(context_, mine_.part(0), all_.whole()); }
  void prepare() override {
    const auto own = static_cast<size_t>(ranks_.rank());
    mine_.fill([&](size_t, size_t i) { return pattern(own, 0, i); });
  }
  void check() const override {
    all_.check("gather_all", [](size_t from, size_t i) { return pattern(from, 0, i); });
  }
  size_t received() const override { return all_.part_bytes * (all_.count - 1); }

 private:
  const Context& context_;
  Communicator& ranks_;
  Parts all_, mine_;  // mine_: one part
};

// A broadcast from another rank each time: it waits for the broadcast before, so that calls do
// not overlap.
class Broadcast : public Collective {
 public:
  Broadcast(const Context& context, Communicator& ranks, size_t bytes)
      : context_(context), ranks_(ranks), all_(context, ranks, bytes) {}
  void run() override {
    ranks_.broadcast(context_, all_.whole(), from_);
    from_ = (from_ + 1) % ranks_.size();
  }
  void prepare() override {
    const bool is_source = ranks_.rank() == from_;
    all_.fill([&](size_t part, size_t i) {
      return is_source ? pattern(0, part, i) : static_cast<unsigned char>(0);
    });
  }
  void check() const override {
    all_.check("broadcast", [](size_t part, size_t i) { return pattern(0, part, i); });
  }
  // On average: its source receives nothing.
  size_t received() const override { return all_.part_bytes * (all_.count - 1); }
  void run_floor(CommFloor& floor) const override { floor.pass(all_.size()); }

 private:
  const Context& context_;
  Communicator& ranks_;
  Parts all_;
  int from_ = 0;
};

class SumAll : public Collective {
 public:
  SumAll(Communicator& ranks, size_t bytes)
      : ranks_(ranks), values_(std::max<size_t>(1, bytes / sizeof(float))) {}
  // Repeated sums would grow without end, which takes no more time.
  void run() override { sum_all(Context{}, ranks_, std::span(values_)); }
  void prepare() override {
    for (size_t i = 0; i < values_.size(); ++i)
      values_[i] = static_cast<float>(ranks_.rank() + static_cast<int>(i % 1000));
  }
  void check() const override {
    const int n = ranks_.size();
    for (size_t i = 0; i < values_.size(); ++i)
      if (values_[i] != static_cast<float>(n * (n - 1) / 2 + n * static_cast<int>(i % 1000)))
        wrong("sum_all", i);
  }
  size_t received() const override {
    const auto count = static_cast<size_t>(ranks_.size());
    return 2 * ((values_.size() + count - 1) / count * sizeof(float)) * (count - 1);
  }
  void run_floor(CommFloor& floor) const override {
    floor.run(received() / 2);
    floor.run(received() / 2);
  }

 private:
  Communicator& ranks_;
  std::vector<float> values_;
};

class Barrier : public Collective {
 public:
  explicit Barrier(Communicator& ranks) : ranks_(ranks) {}
  void run() override { ranks_.barrier(); }
  void prepare() override {}
  void check() const override {}
  size_t received() const override { return static_cast<size_t>(ranks_.size() - 1); }

 private:
  Communicator& ranks_;
};

// `bytes`: of a rank's whole buffer, rounded up so that the ranks divide it; it is on the context's
// device, and run() does not wait for a GPU. sum_all is of host memory only.
std::unique_ptr<Collective> make_collective(const Context& context, const std::string& name,
                                            Communicator& ranks, size_t bytes) {
  if (name == "exchange") return std::make_unique<Exchange>(context, ranks, bytes);
  if (name == "gather_all") return std::make_unique<GatherAll>(context, ranks, bytes);
  if (name == "broadcast") return std::make_unique<Broadcast>(context, ranks, bytes);
  if (name == "sum_all") return std::make_unique<SumAll>(ranks, bytes);
  EMBLEM_REQUIRE(name == "barrier", "unknown collective \"", name,
                 "\"; expected exchange, gather_all, broadcast, sum_all or barrier");
  return std::make_unique<Barrier>(ranks);
}

using Clock = std::chrono::steady_clock;

constexpr int kBlocks = 10;  // blocks of calls; each ends with a barrier and gives one sample
constexpr int64_t kMostCalls = 10000;
// A copy of fewer bytes takes less time than any two threads need to notice each other.
constexpr size_t kLeastCopyFloor = size_t{64} << 10;

// Seconds of one call, one sample per block, as rank 0 sees it.
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
  const int64_t calls = value_of_rank_0(
      ranks, std::clamp(static_cast<int64_t>(std::ceil(seconds / kBlocks / estimate)), int64_t{1},
                        kMostCalls));
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
