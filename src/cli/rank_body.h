// cli/rank_body.h - runs a measurement on ranks that are threads of this process, or as one of
// several processes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/pipeline_options.h"
#include "comm/communicator.h"
#include "comm/tcp/launcher.h"

namespace emblem {

struct RankJob {
  PipelineOptions device;  // --device, --threads
  RankOptions ranks;
  std::string transport = "auto", device_transport = "auto";
  int thread_ranks = 1;                 // where no launcher started this process
  std::vector<std::string> hosts = {};  // that thread ranks stand for; empty: one
  uint64_t configuration = 0;           // must be equal on all ranks
  uint32_t configured_threads = 0;
};

// `control` is for host memory, `exchange` for that of the context's device.
using RankBody =
    std::function<void(const Workers& workers, Communicator& control, Communicator& exchange)>;

// Ranks of a machine share its CPUs, unless --threads or EMBLEM_THREADS says how many each has, and
// use its GPUs in turn. An error of one rank ends all.
void run_thread_ranks(const RankJob& job, const RankBody& body);
// `on_listening` is called with the port at which rank 0 waits for the others.
void run_process_rank(const RankPlace& place, const RankJob& job, const RankBody& body,
                      const std::function<void(uint16_t port)>& on_listening = {});
// As this process was started.
void run_ranks(const RankJob& job, const RankBody& body);

}  // namespace emblem
