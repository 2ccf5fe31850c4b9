#include "bench/collection/collection_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "bench/machine/ceilings.h"
#include "bench/machine/gpu_timer.h"
#include "comm/communicator.h"
#include "comm/counted_ranks.h"
#include "comm/sum_all.h"
#include "core/device/gpu.h"
#include "core/math/random.h"
#include "core/memory/buffer.h"
#include "core/system/interrupt.h"
#include "core/system/seconds_since.h"
#include "core/threads/thread_pool.h"
#include "shard/host_groups.h"
#include "shard/sharded_lookup.h"

namespace emblem {
namespace {

// ---- one rank of several whose others are not there: their requests are recorded, rows and
// gradients do not move ----

// What a rank asks of this one for a batch: keys by table, one after the other.
struct RecordedRequests {
  std::vector<int32_t> counts;  // by table
  Buffer<int64_t> keys;         // on the device; padded to 16 bytes
};

// Rank 0. For the messages of a sharded lookup on a GPU with one shard per rank: sizes in host
// memory, then keys, rows and gradients in device memory.
class RecordedRanks : public Communicator {
 public:
  // batches[b][r - 1]: what rank r asks in batch b.
  RecordedRanks(int size, std::vector<std::vector<RecordedRequests>> batches);

  void begin_batch(int64_t batch);

  int rank() const override { return 0; }
  int size() const override { return static_cast<int>(hosts_.size()); }
  const std::vector<RankHost>& hosts() const override { return hosts_; }
  const char* transport() const override { return "recorded"; }
  void fail(const std::string&) noexcept override {}
  void check() const override {}

 protected:
  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) override;

 private:
  std::vector<RankHost> hosts_;
  std::vector<std::vector<RecordedRequests>> batches_;
  size_t batch_ = 0;
  bool keys_come_next_ = true;
};

void copy_piece(const Context& context, const Piece& to, const void* from, size_t bytes) {
  EMBLEM_REQUIRE(to.bytes == bytes, "a recorded rank sends ", bytes, " bytes where ", to.bytes,
                 " are expected");
  if (bytes > 0) detail::copy(context, to.data, from, bytes);
}

RecordedRanks::RecordedRanks(int size, std::vector<std::vector<RecordedRequests>> batches)
    : batches_(std::move(batches)) {
  for (int rank = 0; rank < size; ++rank) hosts_.push_back({"recorded", rank});
}

void RecordedRanks::begin_batch(int64_t batch) {
  batch_ = static_cast<size_t>(batch) % batches_.size();
  keys_come_next_ = true;
}

void RecordedRanks::do_exchange(const Context& context, std::span<const Piece> send,
                                std::span<const Piece> receive) {
  copy_piece(context, receive[0], send[0].data, send[0].bytes);
  const bool is_device = context.device != Device::kCpu;
  if (is_device && !keys_come_next_) return;
  for (size_t rank = 1; rank < receive.size(); ++rank) {
    const RecordedRequests& of = batches_[batch_][rank - 1];
    if (is_device)
      copy_piece(context, receive[rank], of.keys.data(),
                 static_cast<size_t>(of.keys.size()) * sizeof(int64_t));
    else
      copy_piece(context, receive[rank], of.counts.data(), of.counts.size() * sizeof(int32_t));
  }
  if (is_device) keys_come_next_ = false;
}

using Clock = std::chrono::steady_clock;

constexpr int64_t kRows[] = {45833188, 36746,    17245,    7413,     20243,  3,     7114, 1441, 62,
                             29275261, 1572176,  345138,   10,       2209,   11267, 128,  4,    974,
                             14,       48937457, 11316796, 40094537, 452104, 12606, 104,  35};
constexpr float kRate = 0.1f;
constexpr int64_t kAdamFloats = 6;  // a weight and two states, read and written

int64_t samples_of_rank(const CollectionOptions& options, int ranks) {
  EMBLEM_REQUIRE(options.batch % ranks == 0, "a batch of ", options.batch,
                 " samples cannot be cut into ", ranks, " equal parts");
  return options.batch / ranks;
}

// Batches of a rank, by table.
using HostBatches = std::vector<std::vector<std::vector<int64_t>>>;

HostBatches batches_of_rank(const Context& context, const CollectionOptions& options, int ranks,
                            int rank) {
  const std::vector<TableSettings> tables = collection_tables(options);
  HostBatches batches(static_cast<size_t>(options.distinct));
  for (auto& batch : batches) batch.resize(tables.size());
  const auto each = static_cast<int64_t>(tables.size());
  parallel_for(context, options.distinct * each, 1, [&](int64_t i, int64_t) {
    const auto b = static_cast<size_t>(i / each), t = static_cast<size_t>(i % each);
    batches[b][t] = collection_keys(options, ranks, rank, i / each, t, tables[t].capacity);
  });
  return batches;
}

// Tables over all ranks, their lookup, and batches on the device.
class Workload {
 public:
  Workload(const Context& context, Communicator& host, Communicator& device,
           const CollectionOptions& options, const HostBatches& batches)
      : context_(context) {
    std::vector<ShardedTable> sharded;
    std::vector<ShardedFeature> features;
    for (const TableSettings& settings : collection_tables(options)) {
      const TableShards shards = over_all_ranks(settings.name, host.size());
      tables_.push_back(make_table(context, settings_of_part(settings, shards, host.rank())));
      sharded.push_back({settings, shards, tables_.back().get()});
      features.push_back({features.size(), Pooling::kSum});
    }
    LookupSettings settings;
    settings.dedup = options.dedup;
    lookup_ = make_sharded_lookup(
        context, sharded, features,
        {.host = &host, .device = &device, .slots = 1, .host_dedup = options.host_dedup}, settings);
    for (const auto& batch : batches) {
      std::vector<FeatureKeys>& keys = features_.emplace_back();
      for (const std::vector<int64_t>& of_table : batch) {
        keys_.push_back(Buffer<int64_t>::from(context, of_table));
        keys.push_back({.keys = std::as_const(keys_.back()).view()});
      }
    }
    const auto bags = static_cast<int64_t>(batches[0][0].size());
    out_ = Buffer<float>(context.device, bags, lookup_->width());
    std::vector<float> gradients(static_cast<size_t>(bags * lookup_->width()));
    parallel_for(context, static_cast<int64_t>(gradients.size()), 1 << 16,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     gradients[static_cast<size_t>(i)] =
                         random_uniform(5, 0, static_cast<uint64_t>(i)) - 0.5f;
                 });
    gradients_ = Buffer<float>::from(context, gradients, lookup_->width());
  }

  void forward() {
    lookup_->forward(context_, features_[static_cast<size_t>(step_) % features_.size()],
                     Phase::kTrain, out_.view());
  }
  void backward() {
    ++step_;
    lookup_->backward(context_, std::as_const(gradients_).view(), 1.0f, kRate, step_);
  }
  void check() { lookup_->check(context_); }
  int64_t step() const { return step_; }

 private:
  Context context_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::unique_ptr<Lookup> lookup_;
  std::deque<Buffer<int64_t>> keys_;
  std::vector<std::vector<FeatureKeys>> features_;
  Buffer<float> out_, gradients_;
  int64_t step_ = 0;
};

struct Times {
  double iteration = 0, forward = 0;  // seconds
};

// `begin` is called before every iteration.
Times measure(const Context& context, Workload& work, const CollectionOptions& options,
              const std::function<void()>& begin, const std::function<void()>& barrier) {
  const auto run = [&](int64_t count, bool waits) {
    double forward = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (interrupted()) throw Error(ErrorCode::kCancelled, "bench collection: interrupted");
      begin();
      const auto start = Clock::now();
      work.forward();
      if (waits) context.synchronize();
      forward += seconds_since(start);
      work.backward();
      if (waits) context.synchronize();
    }
    context.synchronize();
    barrier();
    return forward;
  };
  run(options.warmup, false);
  work.check();
  const auto start = Clock::now();
  run(options.iterations, false);
  Times times{.iteration = seconds_since(start) / static_cast<double>(options.iterations)};
  const int64_t some = std::min<int64_t>(options.iterations, 20);
  times.forward = run(some, true) / static_cast<double>(some);
  work.check();
  return times;
}

BenchResult result_of(const Context& context, const std::string& name,
                      const CollectionOptions& options, int ranks, const Times& times) {
  BenchResult result = begin_result("collection", name);
  dispatch(
      context.device, [] {}, [&] { result.machine.gpu = cuda::describe_gpu(); });
  result.settings = {{"ranks", int64_t{ranks}},
                     {"batch", options.batch},
                     {"keys", options.keys},
                     {"dim", options.dim},
                     {"divide_tables", options.divide_tables},
                     {"tables", std::string(options.dynamic ? "dynamic" : "static")},
                     {"dedup", options.dedup},
                     {"iterations", options.iterations},
                     {"references", std::vector<std::string>{"embedding-collection"}}};
  result.metrics = {{"iteration_seconds", {times.iteration, "s", Better::kLower}},
                    {"forward_seconds", {times.forward, "s", Better::kLower}}};
  return result;
}

const char* text_of(HostDedup dedup) {
  if (dedup == HostDedup::kNone) return "none";
  return dedup == HostDedup::kRows ? "rows" : "sums";
}

std::string name_of(const CollectionOptions& options) {
  return cat("collection", options.dynamic ? "-dynamic" : "", options.dedup ? "" : "-no-dedup");
}

// Which rank has a key.
int holder_of(const TableSettings& table, int64_t key, int ranks) {
  const int32_t part =
      table.kind == TableKind::kStatic ? part_of_static_key(key) : part_of_hashed_key(key);
  for (int rank = 0;; ++rank)
    if (part_range_of(rank, ranks).contains(part)) return rank;
}

void deduplicate(std::vector<int64_t>& keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

// Counts of a rank's work in a batch, for the floor.
struct Work {
  double lookups = 0, asked = 0, sent = 0;   // keys; to all ranks; to other ranks
  double requested = 0, requested_rows = 0;  // from all ranks; different ones
};

// What the other ranks ask of rank 0 in each batch.
std::vector<std::vector<RecordedRequests>> record(const Context& context,
                                                  const CollectionOptions& options, int ranks,
                                                  const HostBatches& own, Work& work) {
  const std::vector<TableSettings> tables = collection_tables(options);
  const auto batches = static_cast<double>(options.distinct);
  std::vector<std::vector<RecordedRequests>> recorded(static_cast<size_t>(options.distinct));
  std::vector<std::vector<std::vector<int64_t>>> here(
      recorded.size(), std::vector<std::vector<int64_t>>(tables.size()));
  std::vector<Work> works(tables.size() * recorded.size());
  for (int rank = 0; rank < ranks; ++rank) {
    HostBatches asked = rank == 0 ? own : batches_of_rank(context, options, ranks, rank);
    const auto each = static_cast<int64_t>(tables.size());
    parallel_for(context, options.distinct * each, 1, [&](int64_t i, int64_t) {
      const auto b = static_cast<size_t>(i / each), t = static_cast<size_t>(i % each);
      Work& of = works[static_cast<size_t>(i)];
      std::vector<int64_t>& keys = asked[b][t];
      if (rank == 0) of.lookups = static_cast<double>(keys.size());
      if (options.dedup) deduplicate(keys);
      if (rank == 0) of.asked = static_cast<double>(keys.size());
      std::erase_if(keys, [&](int64_t key) { return holder_of(tables[t], key, ranks) != 0; });
      if (rank == 0) of.sent = of.asked - static_cast<double>(keys.size());
      of.requested += static_cast<double>(keys.size());
      here[b][t].insert(here[b][t].end(), keys.begin(), keys.end());
    });
    if (rank == 0) continue;
    for (size_t b = 0; b < recorded.size(); ++b) {
      RecordedRequests& of = recorded[b].emplace_back();
      std::vector<int64_t> all;
      for (const std::vector<int64_t>& keys : asked[b]) {
        of.counts.push_back(static_cast<int32_t>(keys.size()));
        all.insert(all.end(), keys.begin(), keys.end());
      }
      if (all.size() % 2 != 0) all.push_back(0);  // messages are units of 16 bytes
      of.keys = Buffer<int64_t>::from(context, all);
    }
  }
  for (size_t i = 0; i < works.size(); ++i) {
    std::vector<int64_t>& rows = here[i / tables.size()][i % tables.size()];
    deduplicate(rows);
    work.lookups += works[i].lookups / batches;
    work.asked += works[i].asked / batches;
    work.sent += works[i].sent / batches;
    work.requested += works[i].requested / batches;
    work.requested_rows += static_cast<double>(rows.size()) / batches;
  }
  return recorded;
}

// Bytes that a rank's GPU must read and write in an iteration.
double least_bytes(const Work& work, int64_t dim) {
  const double row = static_cast<double>(dim) * sizeof(float);
  const double gather = 2 * work.requested * row;
  const double expand = (work.asked + work.lookups) * row;
  const double sum = (work.lookups + work.asked) * row;
  const double update =
      (work.requested + static_cast<double>(kAdamFloats) * work.requested_rows) * row;
  return gather + expand + sum + update;
}

}  // namespace

std::vector<TableSettings> collection_tables(const CollectionOptions& options) {
  std::vector<TableSettings> tables;
  for (const int64_t rows : kRows) {
    TableSettings& table = tables.emplace_back();
    table.name = cat("t", tables.size());
    table.dim = options.dim;
    table.kind = options.dynamic ? TableKind::kDynamic : TableKind::kStatic;
    table.capacity = std::max<int64_t>(1, rows / options.divide_tables);
    table.rule = Adam{.epsilon = 1e-3f};
  }
  return tables;
}

std::vector<int64_t> collection_keys(const CollectionOptions& options, int ranks, int rank,
                                     int64_t batch, size_t table, int64_t rows) {
  std::vector<int64_t> keys(static_cast<size_t>(samples_of_rank(options, ranks) * options.keys));
  Random random{static_cast<uint64_t>(1024 + rank),
                static_cast<uint64_t>(batch) * 64 + static_cast<uint64_t>(table)};
  for (int64_t& key : keys) key = static_cast<int64_t>(random.bits() % static_cast<uint64_t>(rows));
  return keys;
}

BenchResult bench_collection(const Context& context, Communicator& host, Communicator& device,
                             const CollectionOptions& options) {
  const HostBatches batches = batches_of_rank(context, options, host.size(), host.rank());
  CountedRanks counted_host(host), counted_device(device);
  Workload work(context, counted_host, counted_device, options, batches);
  const Times times = measure(
      context, work, options, [] {}, [&] { host.barrier(); });
  BenchResult result = result_of(context, name_of(options), options, host.size(), times);
  result.settings.push_back({"transport", std::string(device.transport())});
  const auto hosts = static_cast<int64_t>(HostGroups(host.hosts(), host.rank()).hosts());
  if (hosts == 1) return result;
  result.settings.push_back({"hosts", hosts});
  result.settings.push_back({"host_dedup", std::string(text_of(options.host_dedup))});
  counted_host.take_bytes();
  counted_device.take_bytes();
  for (int64_t i = 0; i < options.distinct; ++i) {
    work.forward();
    work.backward();
  }
  work.check();
  std::vector<int64_t> bytes = {counted_host.take_bytes().between +
                                counted_device.take_bytes().between};
  sum_all(Context{}, host, std::span(bytes));
  result.metrics.push_back({"bytes_between_hosts",
                            {static_cast<double>(bytes[0]) / static_cast<double>(options.distinct),
                             "B", Better::kLower}});
  return result;
}

BenchResult bench_collection_share(const Context& context, int ranks, double link_bytes_per_second,
                                   const CollectionOptions& options) {
  EMBLEM_REQUIRE(context.device == Device::kCuda,
                 "the share of one GPU of several is measured on a GPU; add --device cuda");
  const double copy = dispatch(
      context.device, [&] { return measure_copy(context); },
      [&] { return cuda::measure_device_copy(context); });
  const HostBatches own = batches_of_rank(context, options, ranks, 0);
  Work of_batch;
  RecordedRanks recorded(ranks, record(context, options, ranks, own, of_batch));
  Workload work(context, recorded, recorded, options, own);
  const Times times = measure(
      context, work, options, [&] { recorded.begin_batch(work.step()); }, [] {});
  BenchResult result = result_of(context, name_of(options) + "-share", options, ranks, times);
  const double floor = least_bytes(of_batch, options.dim) / copy;
  const double row = static_cast<double>(options.dim) * sizeof(float);
  const double link = of_batch.sent * (8 + 2 * row) / link_bytes_per_second;
  result.settings.push_back({"lookups", of_batch.lookups});
  result.settings.push_back({"asked", of_batch.asked});
  result.settings.push_back({"requested", of_batch.requested});
  result.settings.push_back({"requested_rows", of_batch.requested_rows});
  result.settings.push_back({"link_bytes_per_second", link_bytes_per_second});
  result.settings.push_back({"derived_link_seconds", link});
  result.settings.push_back({"derived_iteration_seconds", times.iteration + link});
  result.ceilings = {{"copy_bytes_per_second", copy}, {"floor_seconds", floor}};
  result.shares = {{"of the floor", floor / times.iteration}};
  return result;
}

}  // namespace emblem
