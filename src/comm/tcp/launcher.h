// comm/tcp/launcher.h - which rank this process is: from options, or from what a launcher put into
// the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace emblem {

enum class Launcher {
  kNone,      // one rank
  kOptions,   // --rank, --world, --rendezvous
  kOpenMpi,   // mpirun of Open MPI; Kubernetes MPIJob
  kMpich,     // mpiexec of MPICH and its relatives
  kTorchrun,  // RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; PyTorchJob
  kSlurm      // srun
};
const char* name_of(Launcher launcher);  // "openmpi"

struct RankPlace {
  Launcher launcher = Launcher::kNone;
  int rank = 0, size = 1, local_rank = 0;
  // Where rank 0 waits for the others. Empty: the launcher does not tell; MPI can.
  std::string address;
  uint16_t port = 0;
};

// What was given on the command line; unset values come from the environment.
struct RankOptions {
  std::string launcher;             // a name, or "" for the first that has set its variables
  int rank = -1, world = -1;        // -1: not given
  std::string rendezvous;           // HOST:PORT
  double join_seconds = 60;         // for all ranks to be there
  double collective_seconds = 600;  // after which a collective that does not end is an error
};

// The value of an environment variable.
using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

// Looks for options, Open MPI, MPICH, RANK and WORLD_SIZE, srun, in this order. MASTER_ADDR and
// MASTER_PORT count with every launcher. Where all ranks are on one host, mpirun needs neither;
// srun names the first host; the port then follows from the number of the job. Throws
// kInvalidArgument when variables are missing or contradict each other.
RankPlace find_rank_place(const RankOptions& options,
                          const Environment& environment = process_environment);

// "node1:29500", "[::1]:29500" -> host and port. Throws kInvalidArgument.
std::pair<std::string, uint16_t> parse_rendezvous(const std::string& text);

// Variables that count more than RANK and WORLD_SIZE, or change what they mean: a program that sets
// these two for another removes them.
std::vector<std::string> variables_before_torchrun();

// The first host of a list as Slurm writes it: "gpu[07-09,12],cpu1" -> "gpu07".
std::string first_slurm_host(const std::string& list);

}  // namespace emblem
