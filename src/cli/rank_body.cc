#include "cli/rank_body.h"

#include <cstdlib>

#include "cli/rank_options.h"
#include "comm/nccl/open_device.h"
#include "comm/nccl/rank_gpu.h"
#include "comm/open.h"
#include "comm/threads/threads.h"
#include "core/device/gpu.h"
#include "core/system/caught_error.h"
#include "core/threads/thread_pool.h"
#include "emblem/error.h"
#include "ranks/ranks.h"
#include "runtime/runtime.h"

namespace emblem {
namespace {

void run_on_device(const RankJob& job, int threads, Communicator& ranks,
                   const std::string& device_transport, const RankBody& body) {
  PipelineOptions device = job.device;
  if (threads > 0) device.threads = threads;
  const Workers workers = make_workers(device, job.configured_threads);
  const auto opened = open_device_communicator(workers.context, ranks, device_transport,
                                               job.ranks.collective_seconds,
                                               Runtime::current().options().set_variable);
  body(workers, ranks, opened ? *opened : ranks);
}

// Threads of each of `ranks` ranks that are threads here; 0: as given.
int shared_threads(const RankJob& job, int ranks) {
  const bool is_given = job.device.threads > 0 || job.configured_threads > 0 ||
                        std::getenv("EMBLEM_THREADS") != nullptr;
  return is_given ? 0 : std::max(1, available_cpus() / ranks);
}

}  // namespace

void run_thread_ranks(const RankJob& job, const RankBody& body) {
  run_thread_ranks(
      job.thread_ranks,
      [&](Communicator& ranks) {
        if (job.device.device == "cuda")
          dispatch(
              Device::kCuda, [] {}, [&] { cuda::use_gpu(ranks.rank() % cuda::gpu_count()); });
        run_on_device(job, shared_threads(job, job.thread_ranks), ranks, "auto", body);
      },
      job.ranks.collective_seconds, job.hosts);
}

void run_ranks(const RankJob& job, const RankBody& body) {
  const RankPlace place = find_rank_place(job.ranks);
  if (place.size == 1) return run_thread_ranks(job, body);
  EMBLEM_REQUIRE(job.thread_ranks <= 1, "--ranks starts ranks as threads, but this process is one ",
                 "of ", place.size, " ranks; omit it");
  run_process_rank(place, job, body);
}

void run_process_rank(const RankPlace& place, const RankJob& job, const RankBody& body,
                      const std::function<void(uint16_t port)>& on_listening) {
  TcpSettings settings = tcp_settings_of(job.ranks, job.configuration);
  settings.join.on_listening = on_listening;
  const auto ranks = open_communicator(place, job.transport, settings);
  try {
    choose_gpu(*ranks, Runtime::current().options().set_variable);
    int local = 0;
    for (const RankHost& host : ranks->hosts())
      local += host.name == ranks->hosts()[static_cast<size_t>(ranks->rank())].name;
    run_on_device(job, shared_threads(job, local), *ranks, job.device_transport, body);
  } catch (const CommonError&) {
    throw;
  } catch (...) {
    const Error error = caught_error();
    ranks->check();  // the failure of another rank may be the reason
    ranks->fail(error.what());
    throw;
  }
}

}  // namespace emblem
