#include "comm/tcp/launcher.h"

#include <gmock/gmock.h>

#include <map>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

RankPlace place_with(const Variables& variables, const RankOptions& options = {}) {
  return find_rank_place(options, [&](const char* name) -> std::optional<std::string> {
    if (name == nullptr) return std::nullopt;
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string error_with(const Variables& variables, const RankOptions& options = {}) {
  try {
    place_with(variables, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_place(const RankPlace& place, Launcher launcher, int rank, int size, int local_rank,
                  const std::string& address) {
  EXPECT_STREQ(name_of(place.launcher), name_of(launcher));
  EXPECT_EQ(place.rank, rank);
  EXPECT_EQ(place.size, size);
  EXPECT_EQ(place.local_rank, local_rank);
  EXPECT_EQ(place.address, address);
}

TEST(Launcher, NoneIsOneRank) { expect_place(place_with({}), Launcher::kNone, 0, 1, 0, ""); }

TEST(Launcher, OpenMpiOnOneHostNeedsNothingElse) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"PMIX_NAMESPACE", "123456"}};
  const RankPlace place = place_with(variables);
  expect_place(place, Launcher::kOpenMpi, 3, 4, 3, "127.0.0.1");
  EXPECT_GE(place.port, 20000);
  EXPECT_LT(place.port, 30000);
  variables["OMPI_COMM_WORLD_RANK"] = "0";
  EXPECT_EQ(place_with(variables).port, place.port);
  variables["PMIX_NAMESPACE"] = "123457";
  EXPECT_NE(place_with(variables).port, place.port);
}

TEST(Launcher, OpenMpiOnSeveralHostsTakesMasterAddr) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  expect_place(place_with(variables), Launcher::kOpenMpi, 1, 4, 0, "");
  variables["MASTER_ADDR"] = "node1";
  variables["MASTER_PORT"] = "1234";
  expect_place(place_with(variables), Launcher::kOpenMpi, 1, 4, 0, "node1");
  EXPECT_EQ(place_with(variables).port, 1234);
}

TEST(Launcher, Mpich) {
  expect_place(place_with({{"PMI_RANK", "1"},
                           {"PMI_SIZE", "2"},
                           {"MPI_LOCALRANKID", "1"},
                           {"MPI_LOCALNRANKS", "2"}}),
               Launcher::kMpich, 1, 2, 1, "127.0.0.1");
}

TEST(Launcher, TorchrunVariables) {
  Variables variables = {{"RANK", "5"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"MASTER_ADDR", "n"},
                         {"MASTER_PORT", "29400"}};
  expect_place(place_with(variables), Launcher::kTorchrun, 5, 8, 1, "n");
  EXPECT_EQ(place_with(variables).port, 29400);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(place_with(variables).port, 29401);
  variables.erase("MASTER_PORT");
  EXPECT_EQ(place_with(variables).port, 29500);
  variables.erase("MASTER_ADDR");
  EXPECT_THAT(error_with(variables), HasSubstr("no MASTER_ADDR"));
}

TEST(Launcher, SlurmSteps) {
  const Variables variables = {
      {"SLURM_PROCID", "2"},  {"SLURM_STEP_NUM_TASKS", "4"},        {"SLURM_NTASKS", "4"},
      {"SLURM_LOCALID", "0"}, {"SLURM_JOB_NODELIST", "gpu[07-09]"}, {"SLURM_JOB_ID", "9"}};
  expect_place(place_with(variables), Launcher::kSlurm, 2, 4, 0, "gpu07");
}

TEST(Launcher, ABatchScriptOfSlurmIsOneRank) {
  expect_place(place_with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}), Launcher::kNone, 0, 1, 0,
               "");
}

TEST(Launcher, MpiCountsBeforeTheOthers) {
  const Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                               {"RANK", "0"},
                               {"WORLD_SIZE", "1"}};
  expect_place(place_with(variables), Launcher::kOpenMpi, 1, 2, 0, "127.0.0.1");
  RankOptions options;
  options.launcher = "torchrun";
  expect_place(place_with(variables, options), Launcher::kTorchrun, 0, 1, 0, "");
  options.launcher = "none";
  expect_place(place_with(variables, options), Launcher::kNone, 0, 1, 0, "");
  options.launcher = "slurm";
  EXPECT_THAT(error_with(variables, options),
              HasSubstr("--ranks-from slurm: SLURM_PROCID and SLURM_STEP_NUM_TASKS are not in"));
}

TEST(Launcher, OptionsCountBeforeTheEnvironment) {
  RankOptions options;
  options.rank = 1;
  options.world = 3;
  options.rendezvous = "[::1]:700";
  const RankPlace place = place_with({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, options);
  expect_place(place, Launcher::kOptions, 1, 3, 0, "::1");
  EXPECT_EQ(place.port, 700);
  options.rendezvous = "host";
  EXPECT_THAT(error_with({}, options), HasSubstr("expected HOST:PORT"));
  options.rendezvous = "host:70000";
  EXPECT_THAT(error_with({}, options), HasSubstr("the port of --rendezvous is \"70000\""));
  options.rendezvous = "";
  EXPECT_THAT(error_with({}, options), HasSubstr("belong together"));
}

TEST(Launcher, RefusesContradictions) {
  EXPECT_THAT(error_with({{"OMPI_COMM_WORLD_RANK", "1"}}),
              HasSubstr("has OMPI_COMM_WORLD_RANK but no OMPI_COMM_WORLD_SIZE"));
  EXPECT_THAT(error_with({{"WORLD_SIZE", "2"}}), HasSubstr("has WORLD_SIZE but no RANK"));
  EXPECT_THAT(error_with({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), HasSubstr("rank 2 of 2"));
  EXPECT_THAT(error_with({{"RANK", "x"}, {"WORLD_SIZE", "2"}}),
              HasSubstr("RANK is \"x\"; expected a number"));
}

TEST(Launcher, FirstHostOfSlurmsLists) {
  EXPECT_EQ(first_slurm_host("node1"), "node1");
  EXPECT_EQ(first_slurm_host("node1,node2"), "node1");
  EXPECT_EQ(first_slurm_host("gpu[07-09,12],cpu1"), "gpu07");
  EXPECT_EQ(first_slurm_host("gpu[7]"), "gpu7");
  EXPECT_EQ(first_slurm_host("rack[1,3]-node[1-4]"), "rack1-node1");
  EXPECT_THROW(first_slurm_host("gpu[7"), Error);
}

}  // namespace
}  // namespace emblem
