#include "launch/hosts.h"

#include <gmock/gmock.h>

#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string hosts_text(const std::vector<std::string>& words, int ranks) {
  std::string text;
  try {
    for (const HostRanks& host : parse_hosts(words, ranks))
      text += (text.empty() ? "" : " ") + cat(host.host, ":", host.ranks);
  } catch (const Error& error) {
    return error.what();
  }
  return text;
}

TEST(Hosts, WithoutHostsAllRanksAreOnThisMachine) {
  EXPECT_EQ(hosts_text({}, 4), "localhost:4");
  EXPECT_THAT(hosts_text({}, 0), HasSubstr("give --ranks N or --hosts"));
}

TEST(Hosts, HaveTheirNumberOrOneOrAShare) {
  EXPECT_EQ(hosts_text({"a", "b:2"}, 0), "a:1 b:2");
  EXPECT_EQ(hosts_text({"a", "b:2"}, 3), "a:1 b:2");
  EXPECT_EQ(hosts_text({"a", "b"}, 0), "a:1 b:1");
  EXPECT_EQ(hosts_text({"a", "b", "c"}, 8), "a:3 b:3 c:2");
  EXPECT_EQ(hosts_text({"me@10.0.0.1:8", "[fe80::1]:2", "[fe80::2]"}, 0),
            "me@10.0.0.1:8 [fe80::1]:2 [fe80::2]:1");
}

TEST(Hosts, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(hosts_text({"a", "b:2"}, 4), HasSubstr("--ranks is 4, but --hosts has 3 ranks"));
  EXPECT_THAT(hosts_text({"a", "b", "c"}, 2), HasSubstr("less than the 3 hosts"));
  EXPECT_THAT(hosts_text({"a", "a"}, 0), HasSubstr("\"a\" is a duplicate; write a:2"));
  for (const char* word : {"a:", "a:0", "a:x", "a:-1", "a:2:3", "a:1025"})
    EXPECT_THAT(hosts_text({word}, 0), HasSubstr("after the colon; expected 1 to 1024")) << word;
  for (const char* word : {"", " ", ":2", "-oProxyCommand=x", "a b", "a;b", "$(x)", "me@"})
    EXPECT_THAT(hosts_text({word}, 0), HasSubstr("is not a host")) << word;
}

TEST(Hosts, TheAddressHasNoUserAndNoBrackets) {
  EXPECT_EQ(address_of("me@node1"), "node1");
  EXPECT_EQ(address_of("[fe80::1]"), "fe80::1");
}

std::string slots_text(const RankRoster& roster) {
  std::string text;
  for (const RankSlot& slot : roster.slots())
    text += cat(slot.rank, "/", slot.size, " ", slot.host, " ", slot.local_rank, "/",
                slot.local_size, "; ");
  return text;
}

TEST(RankRoster, NumbersRanksInTheOrderOfHosts) {
  EXPECT_EQ(slots_text(RankRoster({{"a", 1}, {"b", 2}}, 3)), "0/3 a 0/1; 1/3 b 0/2; 2/3 b 1/2; ");
}

TEST(RankRoster, ARankThatFailsTwiceInARowLeaves) {
  RankRoster roster({{"a", 1}, {"b", 2}}, 2);
  EXPECT_THAT(roster.remove({1, {}}), IsEmpty());
  EXPECT_THAT(roster.remove({2, {}}), IsEmpty());
  EXPECT_THAT(roster.remove({1, {}}), IsEmpty());
  EXPECT_THAT(
      roster.remove({1, {}}),
      ElementsAre(
          "rank 1 of 3 (host b) failed 2 times in a row and leaves the job; ranks left: 2"));
  EXPECT_EQ(slots_text(roster), "0/2 a 0/1; 1/2 b 0/1; ");
  EXPECT_THAT(roster.remove({1, {}}), IsEmpty());
  EXPECT_THAT(roster.remove({1, {}}), IsEmpty()) << "2 ranks are the least";
}

TEST(RankRoster, AHostThatCannotBeReachedLeavesAtOnceIfEnoughRanksAreLeft) {
  RankRoster roster({{"a", 1}, {"b", 2}, {"c", 1}}, 2);
  EXPECT_THAT(roster.remove({1, {"b"}}),
              ElementsAre("host b cannot be reached and leaves the job; ranks left: 2"));
  EXPECT_EQ(slots_text(roster), "0/2 a 0/1; 1/2 c 0/1; ");
  EXPECT_THAT(roster.remove({0, {"a"}}), IsEmpty());
  EXPECT_EQ(slots_text(roster), "0/2 a 0/1; 1/2 c 0/1; ");
}

TEST(RankRoster, AllRanksStayWhereAllAreNeeded) {
  RankRoster roster({{"localhost", 2}}, 2);
  roster.remove({1, {}});
  EXPECT_THAT(roster.remove({1, {}}), IsEmpty());
  EXPECT_EQ(roster.slots().size(), 2u);
}

}  // namespace
}  // namespace emblem
