#include "plan/probe/probe.h"

#include <algorithm>
#include <ctime>

#include "comm/threads/threads.h"
#include "core/device/gpu.h"
#include "core/system/log.h"
#include "core/system/process.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "data/loader/loader.h"
#include "emblem/error.h"
#include "model/models.h"
#include "shard/dense_sum.h"

namespace emblem {
namespace {

std::string utc_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

int64_t free_device_bytes(const Context& context) {
  return dispatch(
      context.device, [] { return available_memory_bytes(); },
      [] { return cuda::gpu_memory().free_bytes; });
}

// Which GPU a rank uses, to find out who shares one. 0 on a CPU.
uint64_t device_number(const Context& context) {
  return dispatch(
      context.device, [] { return uint64_t{0}; }, [] { return hash_string(cuda::gpu_bus_id()); });
}

LoaderOptions options_of(const config::PipelineConfig& config, int64_t rows, int64_t batches) {
  EMBLEM_REQUIRE(!config.train_input_path().empty(),
                 "no data to read; set train_input_path in the configuration or give "
                 "--train-input");
  if (is_kafka_address(config.train_input_path()))
    throw Error(ErrorCode::kUnsupported,
                "a stream as train_input_path cannot be planned for; give "
                "files of the same form with --train-input");
  LoaderOptions options = training_loader_options(config);
  options.batch_size = rows;
  options.epochs = 1;
  options.max_batches = batches;
  options.shuffle = false;
  return options;
}

}  // namespace

std::vector<MemoryPool> probe_memory(const Context& context, Communicator& ranks) {
  struct Own {
    int64_t bytes;
    uint64_t device;
  };
  Own own{free_device_bytes(context), device_number(context)};
  std::vector<Own> all(static_cast<size_t>(ranks.size()));
  ranks.gather_all(Context{}, {&own, sizeof(own)}, {all.data(), all.size() * sizeof(Own)});
  std::vector<MemoryPool> pools;
  std::vector<size_t> first;  // rank of each pool
  for (size_t r = 0; r < all.size(); ++r) {
    size_t p = 0;
    while (p < pools.size() && (ranks.hosts()[first[p]].name != ranks.hosts()[r].name ||
                                all[first[p]].device != all[r].device))
      ++p;
    if (p == pools.size()) {
      pools.push_back({{}, all[r].bytes});
      first.push_back(r);
    }
    pools[p].ranks.push_back(static_cast<int>(r));
    pools[p].free_bytes = std::min(pools[p].free_bytes, all[r].bytes);
  }
  return pools;
}

Curve probe_dense_sum(RankTimer& timer, const Context& context, Communicator& ranks,
                      int64_t values) {
  const auto own_rank = std::move(make_thread_ranks(1).front());
  DenseSum sum(ranks, std::vector<int64_t>(static_cast<size_t>(ranks.size()), 1));
  DenseSum own_sum(*own_rank, {1});
  std::vector<CurvePoint> points;
  for (const int64_t size : {values / 4, values, 2 * values}) {
    const int64_t count = std::max<int64_t>(size, 1);
    const auto parts =
        Buffer<float>::from(context, std::vector<float>(static_cast<size_t>(count), 1.0f));
    Buffer<float> total(context.device, count);
    const double all = timer.all([&](int64_t) { sum(context, parts.view(), total.view()); });
    const double own = timer.all([&](int64_t) { own_sum(context, parts.view(), total.view()); });
    points.push_back({static_cast<double>(count), std::max(0.0, all - own)});
  }
  return Curve(std::move(points));
}

MachineProfile probe_machine(const Context& context, const ProbeRanks& ranks,
                             const config::PipelineConfig& config, const Workload& workload,
                             const ProbeOptions& options) {
  RankTimer timer(context, ranks.control, options.seconds);
  MachineProfile profile{.date = utc_text(),
                         .device = context.device == Device::kCpu ? "cpu" : "cuda",
                         .transport = ranks.exchange.transport(),
                         .model = model_name(config.model_config()),
                         .threads = context.threads == nullptr ? 1 : context.threads->threads()};
  for (const RankHost& host : ranks.control.hosts()) profile.hosts.push_back(host.name);
  profile.memory = probe_memory(context, ranks.control);
  const auto report = [&](const char* what) {
    if (ranks.control.rank() == 0) log_info(cat("probing ", what));
  };
  report("exchanges");
  profile.exchange = probe_exchange(timer, ranks.exchange);
  profile.dense_sum = probe_dense_sum(timer, context, ranks.exchange, workload.dense_values);
  report("tables");
  profile.tables = probe_tables(timer, workload);
  report("the model");
  profile.pass = probe_pass(timer, config, workload, profile.tables, options);
  report("whole steps");
  profile.steps = probe_step(timer, ranks, config, workload, profile, options);
  return profile;
}

std::vector<Batch> read_batches(const config::PipelineConfig& config, const FeatureLayout& layout,
                                int64_t rows, int64_t count, int64_t stream, int64_t streams) {
  LoaderOptions options = options_of(config, rows, count);
  options.stream = stream;
  options.streams = streams;
  std::vector<Batch> batches;
  {
    Loader loader(config.data_config(), layout, options);
    for (Batch batch; std::ssize(batches) < count && loader.next(batch); batch = Batch())
      batches.push_back(std::move(batch));
  }
  // A stream without rows of its own measures with those of all.
  if (batches.empty() && streams > 1) return read_batches(config, layout, rows, count, 0, 1);
  return batches;
}

Workload sample_workload(const config::PipelineConfig& config, const FeatureLayout& layout,
                         int64_t rows, int64_t shards, int64_t batches, double alpha) {
  Workload workload = workload_of(config, layout, rows, shards);
  if (batches == 0) {
    assume_power_law(workload, alpha);
    return workload;
  }
  Loader loader(config.data_config(), layout, options_of(config, rows, batches));
  WorkloadSampler sampler(workload);
  for (Batch batch; loader.next(batch);) sampler.add(workload, batch);
  sampler.finish(workload, static_cast<double>(loader.expected_rows()));
  return workload;
}

BatchShape batch_shape_of(const config::PipelineConfig& config, int ranks) {
  const int64_t configured = config.train_config().logical_shards();
  const int64_t shards = configured > 0 ? configured : ranks;
  EMBLEM_REQUIRE(shards >= ranks, "train_config.logical_shards is ", shards, ", but there are ",
                 ranks, " ranks; use at most ", shards, " ranks");
  const int64_t all = config.train_config().global_batch_size();
  EMBLEM_REQUIRE(all % shards == 0, "train_config.global_batch_size is ", all,
                 ", which is not a multiple of ", shards, " shards; choose ",
                 (all + shards - 1) / shards * shards);
  return {all > 0 ? all / shards : training_loader_options(config).batch_size,
          (shards + ranks - 1) / ranks};
}

}  // namespace emblem
