#include "train/run/rank_exchange.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<RankHost> kTwoOfTwo = rank_hosts(std::vector<std::string>{"a", "a", "b", "b"});
const std::vector<RankHost> kTwoAndOne = rank_hosts(std::vector<std::string>{"a", "a", "b"});
const std::vector<RankHost> kOneEach = rank_hosts(std::vector<std::string>{"a", "b"});

config::TrainConfig asking(const char* dedup) {
  config::TrainConfig config;
  config.set_dedup_per_host(dedup);
  return config;
}

TEST(HostDedupOf, AutoIsForCpusOfSeveralHostsWithSeveralRanks) {
  const config::TrainConfig unset;
  EXPECT_EQ(host_dedup_of(unset, kTwoOfTwo, Device::kCpu), HostDedup::kRowsAndSums);
  EXPECT_EQ(host_dedup_of(unset, kTwoAndOne, Device::kCpu), HostDedup::kNone);
  EXPECT_EQ(host_dedup_of(unset, kTwoOfTwo, Device::kCuda), HostDedup::kNone);
  EXPECT_EQ(host_dedup_of(asking("OFF"), kTwoOfTwo, Device::kCpu), HostDedup::kNone);
}

TEST(HostDedupOf, OnIsForAllHostsThatRanksShare) {
  const config::TrainConfig on = asking("ON");
  EXPECT_EQ(host_dedup_of(on, kTwoAndOne, Device::kCpu), HostDedup::kRowsAndSums);
  EXPECT_EQ(host_dedup_of(on, kTwoAndOne, Device::kCuda), HostDedup::kRowsAndSums);
  EXPECT_EQ(host_dedup_of(on, kOneEach, Device::kCpu), HostDedup::kNone);
}

TEST(HostDedupOf, GradientsAreNotSummedWhereResultsMustNotDependOnHosts) {
  config::TrainConfig sharded, deterministic, on = asking("ON");
  sharded.set_logical_shards(4);
  deterministic.set_deterministic(true);
  EXPECT_EQ(host_dedup_of(sharded, kTwoOfTwo, Device::kCpu), HostDedup::kRows);
  EXPECT_EQ(host_dedup_of(deterministic, kTwoOfTwo, Device::kCpu), HostDedup::kRows);
  EXPECT_EQ(host_dedup_of(sharded, kTwoOfTwo, Device::kCuda), HostDedup::kNone);
  on.set_logical_shards(4);
  EXPECT_THAT([&] { host_dedup_of(on, kTwoOfTwo, Device::kCuda); },
              ThrowsMessage<Error>(HasSubstr("remove deterministic and logical_shards, or use "
                                             "AUTO or OFF")));
}

}  // namespace
}  // namespace emblem
