#include "plan/probe/links.h"

#include <gmock/gmock.h>

#include "emblem/error.h"
#include "plan/cost/cost.h"
#include "plan/probe/plain_profile_test.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Links, KnowPublishedOnesAndTakeOthers) {
  EXPECT_DOUBLE_EQ(parse_link("nvlink4").bytes_per_second, 370e9);
  EXPECT_THAT(parse_link("ndr").source, HasSubstr("published"));
  const LinkClass mine = parse_link("mine=25:20");
  EXPECT_DOUBLE_EQ(mine.bytes_per_second, 25e9);
  EXPECT_DOUBLE_EQ(mine.latency_seconds, 20e-6);
  EXPECT_EQ(mine.source, "assumed");
  EXPECT_THAT([] { parse_link("nvlink9"); },
              ThrowsMessage<Error>("--link nvlink9: not a known link; expected nvlink4, ndr, or "
                                   "NAME=GB/s:MICROSECONDS"));
  EXPECT_THAT([] { parse_link("a=fast:2"); }, ThrowsMessage<Error>(HasSubstr("as in mine=25:20")));
}

TEST(Links, HostsShareTrafficBetweenLinks) {
  const LinkClass inside{"i", 100, 1}, between{"b", 10, 5};
  const auto seconds = [&](int hosts, int devices) {
    const HostGroups groups = even_hosts(hosts, devices);
    Traffic traffic(groups);  // 300 bytes leave every rank
    traffic.add(Toward::kHolders, 400, {0.25, 0.25, 0.25, 0.25});
    return described_exchange(inside, between)(traffic);
  };
  // One host: all inside. Two hosts of two: a third of the bytes stays inside.
  EXPECT_DOUBLE_EQ(seconds(1, 4), 1 + 3);
  EXPECT_DOUBLE_EQ(seconds(2, 2), 5 + 20);
}

TEST(Links, MoreRanksTakeMoreKeysPerSecond) {
  const MachineProfile profile = test_profile(1);
  const Workload workload = test_workload({1'000'000});
  const auto rate = [&](int hosts) {
    const int ranks = 8 * hosts;
    const CostModel model(profile, workload, even_hosts(hosts, 8),
                          described_exchange(parse_link("nvlink4"), parse_link("ndr")));
    const ShardPlan plan{.ranks = ranks, .tables = {over_all_ranks("t0", ranks)}};
    return ranks / model.predict(plan).seconds.total();
  };
  EXPECT_GT(rate(2), rate(1));
  EXPECT_LT(rate(2), 2 * rate(1));
}

}  // namespace
}  // namespace emblem
