#include "remote/store_lock.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "remote/remote_test.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

class StoreLockTest : public RemoteFolderTest {
 protected:
  void SetUp() override {
    RemoteFolderTest::SetUp();
    storage_ = storage();
  }

  // Options of a process on another machine, whose clock is `now_` and who passes its waits by
  // `on_wait_`.
  StoreLockOptions options(const std::string& id, const std::string& machine = "") {
    StoreLockOptions options;
    options.owner.id = id;
    options.owner.host = options.owner.machine = machine.empty() ? "host-" + id : machine;
    options.now = [this] { return now_.load(); };
    options.wait = [this](double seconds) {
      now_ += seconds;
      if (on_wait_) on_wait_();
    };
    return options;
  }
  LockClaim claim(const std::string& id, const std::string& machine = "") {
    return LockClaim(*storage_, kTestFolder, options(id, machine));
  }

  std::unique_ptr<RemoteStorage> storage_;
  std::function<void()> on_wait_;
};

TEST_F(StoreLockTest, ASecondOneOfALiveHolderIsRefusedWithItsName) {
  LockClaim first = claim("a");
  first.acquire();
  on_wait_ = [&] { EXPECT_TRUE(first.renew()); };
  LockClaim second = claim("b");
  const double began = now_;
  EXPECT_THAT([&] { second.acquire(); },
              ThrowsMessage<Error>(AllOf(HasSubstr("s3://b/runs/1 is in use by another training"),
                                         HasSubstr(cat(::getpid(), " on host-a")))));
  EXPECT_LT(now_ - began, 60);  // one heartbeat was enough
  first.release();
  EXPECT_THAT(all_.objects, IsEmpty());
}

TEST_F(StoreLockTest, AHolderOfThisMachineThatRunsIsRefusedWithoutWaiting) {
  const std::string machine = this_process().machine;
  LockClaim first = claim("a", machine);
  first.acquire();
  const double began = now_;
  EXPECT_THAT([&] { claim("b", machine).acquire(); }, ThrowsMessage<Error>(HasSubstr("in use")));
  EXPECT_EQ(now_, began);
}

TEST_F(StoreLockTest, AHolderThatStoppedRenewingExpires) {
  claim("a").acquire();
  const double began = now_;
  LockClaim second = claim("b");
  second.acquire();
  EXPECT_GE(now_ - began, 60);
  EXPECT_THAT(all_.objects, SizeIs(1));  // that of the second
  EXPECT_TRUE(second.renew());
}

TEST_F(StoreLockTest, AHolderOfThisMachineThatEndedIsReplacedAtOnce) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  LockOwner owner = this_process();
  owner.process = child;
  owner.started = 1;
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(has_ended(owner));
  EXPECT_FALSE(has_ended(this_process()));
  StoreLockOptions dead = options("a");
  dead.owner.machine = owner.machine;
  dead.owner.process = owner.process;
  dead.owner.started = owner.started;
  LockClaim(*storage_, kTestFolder, dead).acquire();
  const double began = now_;
  claim("b").acquire();
  EXPECT_EQ(now_, began);
}

// Both find no claim; then both write.
TEST_F(StoreLockTest, OfTwoAtTheSameTimeTheLaterStops) {
  for (const bool later_is_first_to_write : {false, true}) {
    SCOPED_TRACE(later_is_first_to_write);
    all_.objects.clear();
    LockClaim earlier = claim("a"), later = claim("b");
    LockClaim& outer = later_is_first_to_write ? earlier : later;
    LockClaim& inner = later_is_first_to_write ? later : earlier;
    bool inner_holds = false, done = false;
    all_.before = [&](const std::string& request) {
      if (done || !request.starts_with("PUT")) return;
      done = true;
      if (later_is_first_to_write) now_ += 1;
      inner.acquire();
      inner_holds = true;
      if (!later_is_first_to_write) now_ += 1;
    };
    EXPECT_THAT([&] { outer.acquire(); }, ThrowsMessage<Error>(HasSubstr("in use")));
    all_.before = nullptr;
    EXPECT_TRUE(inner_holds);  // it had seen no other claim
    EXPECT_THAT(all_.objects, SizeIs(1));
    inner.release();
  }
}

TEST_F(StoreLockTest, TheEarlierWaitsForTheLaterToWithdraw) {
  LockClaim earlier = claim("a"), later = claim("b");
  // The later one has written its claim and not looked yet.
  bool done = false;
  all_.before = [&](const std::string& request) {
    if (done || !request.starts_with("PUT")) return;
    done = true;
    all_.put("s3://b/runs/1/.lock/b.json", R"({"began": 2e9, "counter": 1})");
  };
  on_wait_ = [&] { all_.remove("s3://b/runs/1/.lock/b.json"); };
  earlier.acquire();
  EXPECT_TRUE(earlier.renew());
}

TEST_F(StoreLockTest, AHolderThatWasCutOffFindsOut) {
  LockClaim first = claim("a");
  first.acquire();
  now_ += 61;
  EXPECT_FALSE(first.is_fresh());
  LockClaim second = claim("b");
  second.acquire();
  EXPECT_FALSE(first.renew());
  EXPECT_FALSE(first.renew());
  EXPECT_TRUE(second.renew());
  EXPECT_THAT(all_.objects, SizeIs(1));
}

// Its renewal was sent in time and takes effect after another process took over.
TEST_F(StoreLockTest, AHolderWhoseRenewalArrivesLateFindsOut) {
  LockClaim first = claim("a"), second = claim("b");
  first.acquire();
  now_ += 45;
  EXPECT_TRUE(first.renew());
  now_ += 45;
  bool done = false;
  all_.before = [&](const std::string& request) {
    if (done || !request.starts_with("PUT")) return;
    done = true;
    second.acquire();
  };
  EXPECT_FALSE(first.renew());
  EXPECT_TRUE(done);
  EXPECT_FALSE(first.renew());
  EXPECT_TRUE(second.renew());
  EXPECT_THAT(all_.objects, SizeIs(1));
}

// As above, but the answer is an error: the claim is back, and the next heartbeat finds the other.
TEST_F(StoreLockTest, AHolderWhoseLateRenewalIsAnsweredByAnErrorWithdraws) {
  LockClaim first = claim("a"), second = claim("b");
  first.acquire();
  now_ += 45;
  bool done = false;
  all_.before = [&](const std::string& request) {
    if (done || !request.starts_with("PUT")) return;
    done = true;
    second.acquire();
    all_.put("s3://b/runs/1/.lock/a.json", "{}");
    throw Error(ErrorCode::kPermissionDenied, "HTTP status 403");
  };
  EXPECT_THROW(first.renew(), Error);
  EXPECT_FALSE(first.renew());
  EXPECT_TRUE(second.renew());
  EXPECT_THAT(all_.objects, SizeIs(1));
}

TEST_F(StoreLockTest, AHolderThatWasCutOffContinuesWhereNobodyTookOver) {
  LockClaim first = claim("a");
  first.acquire();
  now_ += 1000;
  EXPECT_TRUE(first.renew());
  EXPECT_TRUE(first.is_fresh());
}

TEST_F(StoreLockTest, AnUnreadableClaimCountsUntilItExpires) {
  all_.put("s3://b/runs/1/.lock/x.json", "{");
  const double began = now_;
  claim("a").acquire();
  EXPECT_GE(now_ - began, 60);
}

TEST_F(StoreLockTest, AnExpiredClaimThatMayNotBeRemovedIsPassedOver) {
  claim("a").acquire();
  all_.before = [](const std::string& request) {
    if (request.starts_with("DELETE")) throw Error(ErrorCode::kPermissionDenied, "HTTP status 403");
  };
  LockClaim second = claim("b");
  second.acquire();
  EXPECT_TRUE(second.renew());
  all_.before = nullptr;
  EXPECT_THAT(all_.objects, SizeIs(2));
}

TEST_F(StoreLockTest, AClaimWithValuesOfOtherTypesCountsUntilItExpires) {
  all_.put("s3://b/runs/1/.lock/x.json",
           R"({"host": 5, "machine": [], "process": "x", "began": {}})");
  const double began = now_;
  claim("a").acquire();
  EXPECT_GE(now_ - began, 60);
}

TEST_F(StoreLockTest, AHolderWhoseClockIsHoursBehindIsNotTakenForDead) {
  StoreLockOptions behind = options("a");
  behind.now = [this] { return now_ - 7200; };
  LockClaim first(*storage_, kTestFolder, behind);
  first.acquire();
  on_wait_ = [&] { EXPECT_TRUE(first.renew()); };
  EXPECT_THAT([&] { claim("b").acquire(); }, ThrowsMessage<Error>(HasSubstr("in use")));
}

TEST_F(StoreLockTest, TheLockIsReleasedAtTheEnd) {
  {
    StoreLock lock(*storage_, kTestFolder);
    EXPECT_TRUE(lock.is_held());
    EXPECT_THAT(all_.objects, SizeIs(1));
  }
  EXPECT_THAT(all_.objects, IsEmpty());
}

// Many threads as many machines: never two at a time, whatever the order of their requests.
TEST_F(StoreLockTest, NoTwoHoldItWhenManyContend) {
  std::atomic<int> holders{0}, acquired{0};
  std::atomic<bool> overlapped{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 30; ++round) {
        StoreLockOptions one;
        one.owner.id = cat("id-", (t * 7 + round * 5) % 11, "-", t, "-", round);
        one.owner.host = one.owner.machine = cat("host-", t);
        one.contest_seconds = 0.05;
        one.wait = [](double) { std::this_thread::yield(); };
        LockClaim claim(*storage_, kTestFolder, one);
        try {
          claim.acquire();
        } catch (const Error&) {
          continue;
        }
        overlapped = overlapped || holders.fetch_add(1) > 0;
        ++acquired;
        claim.renew();
        holders.fetch_sub(1);
        claim.release();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(overlapped);
  EXPECT_GT(acquired, 0);
}

}  // namespace
}  // namespace emblem
