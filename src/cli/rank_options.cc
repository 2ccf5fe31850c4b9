#include "cli/rank_options.h"

namespace emblem {

void add_rendezvous_option(Command& command, std::string& variable, const std::string& text) {
  const Option option = command.option("--rendezvous", variable, "HOST:PORT", text);
  command.option("--meet", variable, "HOST:PORT", "").excludes(option);
}

void add_rank_options(Command& command, RankOptions& options) {
  command
      .option(
          "--rank", options.rank, "N",
          "This process's rank, with --world and --rendezvous (default: what mpirun, srun or RANK "
          "and WORLD_SIZE say)")
      .at_least(0)
      .hide_default();
  command.option("--world", options.world, "N", "Number of ranks").positive().hide_default();
  add_rendezvous_option(command, options.rendezvous, "Where rank 0 waits for the others");
  command.option("--join-seconds", options.join_seconds, "S", "Time for all ranks to join")
      .range(0.001, 1e6);
  command
      .option("--collective-seconds", options.collective_seconds, "S",
              "Time after which a rank that does not take part in a collective is an error")
      .range(0.001, 1e6);
  command.choice("--ranks-from", options.launcher,
                 {"openmpi", "mpich", "torchrun", "slurm", "none"},
                 "Whose environment variables to read (default: the first that are set; none: one "
                 "rank)");
}

void add_transport_options(Command& command, TransportOptions& options) {
  command.choice("--transport", options.ranks, {"auto", "tcp", "mpi"},
                 "What connects several ranks; auto: TCP where rank 0 has an address, else MPI");
  command.choice(
      "--device-transport", options.device, {"auto", "nccl", "staged"},
      "What connects the GPUs of several ranks; auto: NCCL where it is installed and no ranks "
      "share a GPU, else staged, through host memory");
}

}  // namespace emblem
