#include "plan/probe.h"

#include <ctime>

#include "comm/threads.h"
#include "core/gpu.h"
#include "core/log.h"
#include "core/process.h"
#include "core/thread_pool.h"
#include "model/builders.h"
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

}  // namespace emblem
