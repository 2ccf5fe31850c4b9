#include "comm/tcp/launcher.h"

#include <cstdlib>
#include <limits>
#include <tuple>
#include <vector>

#include "core/math/hash.h"
#include "core/text/parse_number.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr uint16_t kTorchrunPort = 29500;  // PyTorch's default
// "True": torchrun itself listens at MASTER_PORT.
constexpr const char* kAgentListens = "TORCHELASTIC_USE_AGENT_STORE";

// Variables of a launcher; null: it has none.
struct Variables {
  Launcher launcher;
  const char *rank, *size, *local_rank, *local_size, *job;
};
constexpr Variables kLaunchers[] = {
    {Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {Launcher::kMpich, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_PORT"},
    {Launcher::kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr},
    // A step, which srun makes: a batch script has SLURM_NTASKS, too, but is not a rank.
    {Launcher::kSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr,
     "SLURM_JOB_ID"},
};

template <class Number>
Number number_in(const std::string& text, const std::string& name) {
  const auto value = parse_number<Number>(text);
  EMBLEM_REQUIRE(value, name, " is \"", text, "\"; expected a number from 0 to ",
                 static_cast<int64_t>(std::numeric_limits<Number>::max()));
  return *value;
}

std::optional<int> number_of(const Environment& environment, const char* name) {
  if (name == nullptr) return std::nullopt;
  const std::optional<std::string> text = environment(name);
  if (!text) return std::nullopt;
  return number_in<int>(*text, name);
}

void require_rank(const RankPlace& place, const char* source) {
  EMBLEM_REQUIRE(place.size >= 1 && place.rank >= 0 && place.rank < place.size, source, ": rank ",
                 place.rank, " of ", place.size, "; expected a rank from 0 to size - 1");
}

// Equal for all ranks of a job, different for most jobs; below the ports that systems give away.
uint16_t port_of_job(const std::string& job) {
  return static_cast<uint16_t>(20000 + hash_string(job) % 10000);
}

void add_rendezvous(RankPlace& place, const Variables& names, const Environment& environment) {
  if (const auto address = environment("MASTER_ADDR")) {
    place.address = *address;
  } else if (names.launcher == Launcher::kSlurm) {
    const auto list = environment("SLURM_STEP_NODELIST");
    const auto hosts = list ? list : environment("SLURM_JOB_NODELIST");
    if (hosts) place.address = first_slurm_host(*hosts);
  } else if (number_of(environment, names.local_size) == place.size) {
    place.address = "127.0.0.1";
  }
  if (const auto port = environment("MASTER_PORT")) {
    place.port = number_in<uint16_t>(*port, "MASTER_PORT");
    // torchrun's agent listens at the port itself.
    if (environment(kAgentListens) == "True") ++place.port;
  } else if (names.launcher == Launcher::kTorchrun) {
    place.port = kTorchrunPort;
  } else {
    const auto step = environment("SLURM_STEP_ID");
    place.port = port_of_job(environment(names.job).value_or("") + "/" + step.value_or(""));
  }
}

std::optional<RankPlace> place_from(const Variables& names, const Environment& environment) {
  const std::optional<int> rank = number_of(environment, names.rank);
  const std::optional<int> size = number_of(environment, names.size);
  if (!rank && !size) return std::nullopt;
  // A batch script of Slurm, or a variable RANK that means something else.
  if (!size && names.launcher != Launcher::kOpenMpi) return std::nullopt;
  EMBLEM_REQUIRE(rank && size, "the environment has ", rank ? names.rank : names.size, " but no ",
                 rank ? names.size : names.rank,
                 "; set both, or --rank, --world and --rendezvous, or --ranks-from none");
  RankPlace place;
  place.launcher = names.launcher;
  place.rank = *rank;
  place.size = *size;
  require_rank(place, name_of(names.launcher));
  place.local_rank = number_of(environment, names.local_rank).value_or(0);
  if (place.size > 1) add_rendezvous(place, names, environment);
  EMBLEM_REQUIRE(place.size == 1 || place.launcher != Launcher::kTorchrun || !place.address.empty(),
                 "the environment has RANK and WORLD_SIZE but no MASTER_ADDR; set it to the host "
                 "of rank 0, and MASTER_PORT to a free port there");
  return place;
}

RankPlace place_from_options(const RankOptions& options) {
  EMBLEM_REQUIRE(
      options.rank >= 0 && options.world >= 1 && !options.rendezvous.empty(),
      "--rank, --world and --rendezvous belong together: this rank, the number of ranks, and "
      "HOST:PORT of rank 0");
  RankPlace place;
  place.launcher = Launcher::kOptions;
  place.rank = options.rank;
  place.size = options.world;
  require_rank(place, "--rank and --world");
  std::tie(place.address, place.port) = parse_rendezvous(options.rendezvous);
  return place;
}

}  // namespace

const char* name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone:
      return "none";
    case Launcher::kOptions:
      return "options";
    case Launcher::kOpenMpi:
      return "openmpi";
    case Launcher::kMpich:
      return "mpich";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kSlurm:
      return "slurm";
  }
  return "none";
}

std::optional<std::string> process_environment(const char* name) {
  const char* const value = name == nullptr ? nullptr : std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

RankPlace find_rank_place(const RankOptions& options, const Environment& environment) {
  if (options.rank >= 0 || options.world >= 0 || !options.rendezvous.empty())
    return place_from_options(options);
  if (options.launcher == name_of(Launcher::kNone)) return {};
  for (const Variables& names : kLaunchers) {
    if (!options.launcher.empty() && options.launcher != name_of(names.launcher)) continue;
    if (const auto place = place_from(names, environment)) return *place;
    EMBLEM_REQUIRE(options.launcher.empty(), "--ranks-from ", options.launcher, ": ", names.rank,
                   " and ", names.size, " are not in the environment");
  }
  return {};
}

std::pair<std::string, uint16_t> parse_rendezvous(const std::string& text) {
  const size_t colon = text.rfind(':');
  EMBLEM_REQUIRE(colon != std::string::npos && colon > 0, "--rendezvous is \"", text,
                 "\"; expected HOST:PORT of rank 0");
  std::string address = text.substr(0, colon);
  if (address.size() > 2 && address.front() == '[' && address.back() == ']')
    address = address.substr(1, address.size() - 2);  // [::1]:29500
  const auto port = number_in<uint16_t>(text.substr(colon + 1), "the port of --rendezvous");
  EMBLEM_REQUIRE(port > 0, "--rendezvous is \"", text,
                 "\"; the port must be the same on all ranks, from 1 to 65535");
  return {address, port};
}

std::vector<std::string> variables_before_torchrun() {
  std::vector<std::string> names = {kAgentListens};
  for (const Variables& launcher : kLaunchers) {
    if (launcher.launcher == Launcher::kTorchrun) break;
    names.insert(names.end(), {launcher.rank, launcher.size});
  }
  return names;
}

std::string first_slurm_host(const std::string& list) {
  const size_t end = list.find_first_of(",[");
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  const size_t close = list.find(']', end);
  EMBLEM_REQUIRE(close != std::string::npos, "the host list \"", list, "\" of Slurm has no \"]\"");
  const size_t number_end = list.find_first_of(",-]", end);
  return list.substr(0, end) + list.substr(end + 1, number_end - end - 1) +
         first_slurm_host(list.substr(close + 1));
}

}  // namespace emblem
