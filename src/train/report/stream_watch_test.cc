#include "train/report/stream_watch.h"

#include <gmock/gmock.h>

namespace emblem {
namespace {

TEST(StreamWatch, SaysOnceThatNothingCanBeReadAndOnceThatItCan) {
  StreamWatch watch("clicks");
  testing::internal::CaptureStderr();
  for (const char* problem : {"", "no broker", "no broker", "another", "", "", "no broker"})
    watch.set_problem(problem);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "emblem: warning: kafka: topic clicks: no broker; trying again\n"
            "emblem: kafka: topic clicks is read again\n"
            "emblem: warning: kafka: topic clicks: no broker; trying again\n");
}

}  // namespace
}  // namespace emblem
