#include "plan/cost/traffic.h"

#include <gmock/gmock.h>

#include "plan/probe/links.h"
#include "plan/probe/plain_profile_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;

const std::vector<double> kEven = {0.25, 0.25, 0.25, 0.25};

TEST(TrafficOfHosts, IsInsideOrBetweenThem) {
  const HostGroups hosts = even_hosts(2, 2);
  Traffic keys(hosts);
  keys.add(Toward::kHolders, 400, kEven);
  EXPECT_THAT(keys.inside.sent, ElementsAre(100, 100, 100, 100));
  EXPECT_THAT(keys.between.sent, ElementsAre(200, 200, 200, 200));
  EXPECT_DOUBLE_EQ(keys.sent(0), 300);
  Traffic rows(hosts);
  rows.add(Toward::kAskers, 400, {1, 0, 0, 0});
  EXPECT_THAT(rows.inside.sent, ElementsAre(400, 0, 0, 0));
  EXPECT_THAT(rows.between.sent, ElementsAre(800, 0, 0, 0));
  EXPECT_THAT(rows.between.received, ElementsAre(0, 0, 400, 400));
}

TEST(TrafficOfHosts, IsLessBetweenThemThroughRelays) {
  const HostGroups hosts = even_hosts(2, 2);
  Traffic keys(hosts), to_relays(hosts);
  keys.add_merged(Toward::kHolders, 400, kEven, {0.5, 1});
  EXPECT_THAT(keys.inside.sent, ElementsAre(100, 100, 100, 100));
  EXPECT_THAT(keys.between.sent, ElementsAre(100, 100, 200, 200));
  EXPECT_THAT(keys.between.received, ElementsAre(200, 200, 100, 100));
  to_relays.add_relayed(Toward::kHolders, 400, kEven);
  EXPECT_THAT(to_relays.inside.sent, ElementsAre(100, 100, 100, 100));
  EXPECT_DOUBLE_EQ(to_relays.between.busiest(), 0);
  // One rank with all rows has one relay per host.
  Traffic rows(hosts), from_relays(hosts);
  rows.add_merged(Toward::kAskers, 400, {1, 0, 0, 0}, {1, 0.75});
  EXPECT_THAT(rows.between.sent, ElementsAre(600, 0, 0, 0));
  EXPECT_THAT(rows.between.received, ElementsAre(0, 0, 600, 0));
  from_relays.add_relayed(Toward::kAskers, 400, {1, 0, 0, 0});
  EXPECT_THAT(from_relays.inside.sent, ElementsAre(0, 0, 400, 0));
  EXPECT_THAT(from_relays.inside.received, ElementsAre(0, 0, 0, 400));
}

TEST(MeasuredExchange, KnowsWhatStaysInsideHosts) {
  const auto line = [](double each) { return Curve({{0, 0}, {1000, 1000 * each}}); };
  const ExchangeCosts costs = {line(10), line(10), line(1)};
  const ExchangeTime seconds = measured_exchange(costs);
  const HostGroups hosts = even_hosts(2, 2);
  Traffic direct(hosts), merged(hosts), relayed(hosts);
  direct.add(Toward::kHolders, 400, kEven);
  merged.add_merged(Toward::kHolders, 400, kEven, {0.5, 0.5});
  relayed.add_relayed(Toward::kHolders, 400, kEven);
  relayed.stays_inside = true;
  EXPECT_DOUBLE_EQ(seconds(direct), 3000);
  EXPECT_DOUBLE_EQ(seconds(merged), 1500);
  EXPECT_DOUBLE_EQ(seconds(relayed), 100);
  // Without that measurement, bytes are bytes.
  EXPECT_DOUBLE_EQ(measured_exchange({line(10), line(10), {}})(merged), 2000);
}

// Half of the keys of two ranks are the same.
Workload shared_workload(HostDedup dedup) {
  Workload workload = test_workload({1'000'000});
  workload.tables[0].keys = DistinctKeys({{1000, 1000}, {2000, 1000}, {4000, 4000}}, 1, 1'000'000);
  workload.host_dedup = dedup;
  return workload;
}

Prediction on_two_hosts(HostDedup dedup, const TableShards& shards) {
  const CostModel model(test_profile(1), shared_workload(dedup), even_hosts(2, 2),
                        described_exchange({"i", 1e12, 1e-6, ""}, {"b", 1e9, 1e-4, ""}));
  return model.predict({.ranks = 4, .tables = {shards}});
}

TEST(CostOfHosts, SharedRowsAreFewerBetweenThemAndMoreWorkOfRelays) {
  const TableShards shards = over_all_ranks("t0", 4);
  const Prediction direct = on_two_hosts(HostDedup::kNone, shards);
  const Prediction rows = on_two_hosts(HostDedup::kRows, shards);
  const Prediction sums = on_two_hosts(HostDedup::kRowsAndSums, shards);
  // 500 keys of 1000 are on the other host; half of them are left.
  EXPECT_NEAR(direct.seconds.rows, 1e-4 + 500 * 64e-9, 1e-9);
  EXPECT_NEAR(rows.seconds.rows, 1e-4 + 250 * 64e-9 + 1e-6, 1e-7);
  EXPECT_NEAR(sums.seconds.rows, rows.seconds.rows, 1e-12);
  EXPECT_NEAR(rows.seconds.gradients, direct.seconds.gradients, 1e-12);
  EXPECT_NEAR(sums.seconds.gradients, 1e-4 + 250 * 64e-9 + 1e-6, 1e-7);
  EXPECT_GT(rows.seconds.keys, direct.seconds.keys);
  // A relay finds the keys of two ranks for one of the other host: 250 each.
  EXPECT_NEAR(sums.seconds.requests - direct.seconds.requests, 500 * 1e-7, 1e-12);
  EXPECT_NEAR(rows.seconds.requests - direct.seconds.requests, 2 * 500 * 1e-7, 1e-12);
  EXPECT_NEAR(sums.seconds.sums - direct.seconds.sums, 500 * 2e-7, 1e-12);
  // A holder is asked for 500 keys by its host and 250 by the other.
  EXPECT_NEAR(direct.seconds.gather, 1e-3, 1e-9);
  EXPECT_NEAR(rows.seconds.gather, 1e-3, 1e-9);
  EXPECT_NEAR(sums.seconds.gather, 0.75e-3, 1e-9);
  EXPECT_GT(sums.bytes[0].exchange, direct.bytes[0].exchange);
}

TEST(CostOfHosts, ReplicatedAndPooledTablesAreNotShared) {
  TableShards pooled = on_rank("t0", 1, 4);
  pooled.pooled_at_owner = true;
  for (const TableShards& shards : {on_every_rank("t0"), pooled})
    EXPECT_DOUBLE_EQ(on_two_hosts(HostDedup::kRowsAndSums, shards).seconds.total(),
                     on_two_hosts(HostDedup::kNone, shards).seconds.total());
}

}  // namespace
}  // namespace emblem
