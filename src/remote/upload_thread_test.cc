#include "remote/upload_thread.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <vector>

#include "core/threads/becomes_true_test.h"

namespace emblem {
namespace {

TEST(UploadThread, ARequestReturnsWhileAnUploadIsUnderWay) {
  std::promise<void> release, entered;
  std::atomic<int> calls{0};
  UploadThread thread(
      [&, freed = release.get_future().share()] {
        if (calls++ == 0) entered.set_value();
        freed.wait();
      },
      [](const std::string&) {});
  thread.request();
  entered.get_future().wait();
  for (int i = 0; i < 10; ++i) thread.request();
  EXPECT_EQ(calls, 1);
  release.set_value();
  EXPECT_TRUE(becomes_true([&] { return calls == 2; }));  // one more for all requests
  thread.stop();
  EXPECT_EQ(calls, 2);
}

TEST(UploadThread, AFailedUploadIsReportedAndTriedAgain) {
  std::atomic<int> calls{0};
  std::vector<std::string> warnings;
  UploadThread thread(
      [&] {
        if (calls++ < 2) throw std::runtime_error("no store");
      },
      [&](const std::string& problem) { warnings.push_back(problem); }, /*retry_seconds=*/0.001);
  thread.request();
  EXPECT_TRUE(becomes_true([&] { return calls == 3; }));
  thread.stop();
  EXPECT_THAT(warnings, testing::ElementsAre("no store", "no store"));
  EXPECT_EQ(calls, 3);
}

TEST(UploadThread, StopsWithoutARequest) {
  UploadThread thread([] { FAIL(); }, [](const std::string&) {});
  thread.stop();
}

}  // namespace
}  // namespace emblem
