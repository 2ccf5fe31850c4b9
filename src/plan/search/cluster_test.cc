#include "plan/search/cluster.h"

#include <gmock/gmock.h>

#include "plan/probe/plain_profile_test.h"

namespace emblem {
namespace {

ClusterShape cluster(int hosts) { return {hosts, 8, parse_link("nvlink4"), parse_link("ndr")}; }

// A batch of n rows has n^(3/4) different keys.
Workload power_workload(HostDedup dedup) {
  Workload workload = test_workload({10'000'000});
  workload.tables[0].keys = DistinctKeys({{1, 1}, {16, 8}}, 1, 1e7);
  workload.host_dedup = dedup;
  return workload;
}

TEST(Cluster, RowsToAHostAreThoseOfItsRanksThatOtherHostsHave) {
  const MachineProfile profile = test_profile(1);
  const Workload direct = power_workload(HostDedup::kNone),
                 shared = power_workload(HostDedup::kRowsAndSums);
  const double keys = direct.tables[0].keys.at(1000);
  EXPECT_DOUBLE_EQ(predict_cluster(profile, direct, cluster(1)).rows_to_host, 0);
  EXPECT_NEAR(predict_cluster(profile, direct, cluster(2)).rows_to_host, 8 * keys / 2, 1e-6 * keys);
  EXPECT_NEAR(predict_cluster(profile, shared, cluster(2)).rows_to_host,
              direct.tables[0].keys.at(8000) / 2, 1e-6 * keys);
}

TEST(Cluster, SharedRowsMatterWhereThereAreSeveralHosts) {
  const MachineProfile profile = test_profile(1);
  const auto seconds = [&](HostDedup dedup, int hosts) {
    return predict_cluster(profile, power_workload(dedup), cluster(hosts))
        .prediction.seconds.total();
  };
  EXPECT_DOUBLE_EQ(seconds(HostDedup::kRowsAndSums, 1), seconds(HostDedup::kNone, 1));
  EXPECT_NE(seconds(HostDedup::kRowsAndSums, 4), seconds(HostDedup::kNone, 4));
}

TEST(Cluster, HasAtMostAsManyRanksAsParts) {
  EXPECT_THAT([] { predict_cluster(test_profile(1), test_workload({100}), cluster(1000)); },
              testing::ThrowsMessage<Error>("--hosts 1000 with --devices 8: expected 1 to 4096 "
                                            "devices in all"));
}

}  // namespace
}  // namespace emblem
