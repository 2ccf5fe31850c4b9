#include "launch/failure_cause.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace emblem {
namespace {

RankReport exited(int status, const std::string& line) { return {{status, 0, false}, line}; }
const RankReport kKilled = {{0, 9, false}, ""}, kStopped = {{0, 15, true}, ""};

TEST(FailureCause, AKilledRankCountsBeforeThoseThatNoticedIt) {
  const RankReport other = exited(1, "emblem: rank 2 (host b): connection closed");
  EXPECT_EQ(find_failed_rank({other, other, kKilled}, 0), 2);
}

TEST(FailureCause, TheOthersNameARankThatHangs) {
  const RankReport other = exited(1, "emblem: rank 1 (host b): no heartbeat for 9 s");
  EXPECT_EQ(find_failed_rank({other, kStopped, other}, 2), 1);
  EXPECT_EQ(how_it_failed(kStopped), "did not end after another rank failed, and was stopped");
}

TEST(FailureCause, OtherwiseTheFirstToFail) {
  EXPECT_EQ(find_failed_rank({exited(1, ""), kStopped, exited(3, "rank 9 (host x): y")}, 2), 2);
  EXPECT_EQ(
      find_failed_rank({exited(1, ""), exited(0, ""), exited(3, "emblem: rank 1 (host b): x")}, 2),
      2);
}

TEST(FailureCause, TheSameErrorOnAllRanks) {
  const RankReport own = exited(1, "emblem: no such file"),
                   told = exited(1, "emblem: rank 0 (host a): no such file");
  EXPECT_TRUE(have_same_error({own, own, told}));
  EXPECT_TRUE(have_same_error({own}));
  EXPECT_FALSE(have_same_error({own, exited(2, "emblem: no such file")}));
  EXPECT_FALSE(have_same_error({own, exited(1, "emblem: disk full")}));
  EXPECT_FALSE(have_same_error({own, kStopped}));
  EXPECT_FALSE(have_same_error({kKilled, kKilled}));
  EXPECT_FALSE(have_same_error({exited(1, "emblem: rank 1 (host b): connection lost"),
                                exited(1, "emblem: rank 0 (host a): connection lost")}));
  const RankReport versions =
      exited(1, "emblem: rank 1 (host b) has emblem 1, rank 0 (host a) has 2");
  EXPECT_TRUE(have_same_error({versions, versions}));
  EXPECT_FALSE(have_same_error({own, exited(0, "emblem: no such file")}));
}

TEST(FailureCause, AnInterruptionOfAllRanks) {
  const RankReport by_int = exited(130, ""), by_term = exited(143, "");
  EXPECT_EQ(interruption_of({by_int, by_int}), SIGINT);
  EXPECT_EQ(interruption_of({by_int, by_term, by_int}), SIGTERM);
  EXPECT_EQ(interruption_of({by_int, exited(1, "")}), 0);
  EXPECT_EQ(interruption_of({by_int, exited(0, "")}), 0);
  EXPECT_EQ(interruption_of({kKilled, by_int}), 0);
  EXPECT_EQ(interruption_of({by_int, kStopped}), 0);
}

}  // namespace
}  // namespace emblem
