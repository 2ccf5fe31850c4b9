// cli/rank_body.h - runs a measurement on the ranks of this machine's threads, or as one of the
// processes that a launcher started.
#pragma once

#include <functional>

#include "cli/pipeline_options.h"
#include "comm/communicator.h"
#include "comm/tcp/launcher.h"

namespace emblem {

struct RankJob {
  PipelineOptions device;  // --device, --threads
  RankOptions ranks;
  std::string transport = "auto", device_transport = "auto";
  int thread_ranks = 1;        // where no launcher started this process
  uint64_t configuration = 0;  // must be equal on all ranks
  uint32_t configured_threads = 0;
};

// `control` is for host memory, `exchange` for that of the context's device.
using RankBody =
    std::function<void(const Workers& workers, Communicator& control, Communicator& exchange)>;

// Ranks of a machine share its CPUs, unless --threads or EMBLEM_THREADS says how many each has.
// An error of one rank ends all.
void run_ranks(const RankJob& job, const RankBody& body);

}  // namespace emblem
