#include "launch/interrupt_handler.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "core/system/interrupt.h"

namespace emblem {
namespace {

TEST(Interrupt, TheFirstSignalIsARequest) {
  for (const auto& [signal, status] :
       {std::pair(SIGINT, 130), std::pair(SIGTERM, 143), std::pair(SIGHUP, 129)}) {
    ::signal(signal, SIG_DFL);  // a parent such as nohup may have had it ignored
    const InterruptHandler handler;
    EXPECT_FALSE(interrupted());
    EXPECT_EQ(interrupted_status(), 0);
    raise(signal);
    EXPECT_TRUE(interrupted());
    EXPECT_EQ(interrupted_status(), status);
  }
  EXPECT_FALSE(interrupted()) << "forgotten when the handler is gone";
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  const auto interrupt_twice = [] {
    const InterruptHandler handler;
    raise(SIGINT);
    raise(SIGTERM);
    std::exit(0);
  };
  EXPECT_EXIT(interrupt_twice(), testing::ExitedWithCode(130), "");
}

TEST(InterruptDeathTest, SignalsActAsBeforeWhenTheHandlerIsGone) {
  const auto interrupt_late = [] {
    { const InterruptHandler handler; }
    raise(SIGTERM);
    std::exit(0);
  };
  EXPECT_EXIT(interrupt_late(), testing::KilledBySignal(SIGTERM), "");
}

TEST(Interrupt, PrintsItsNoticeAtTheFirstSignal) {
  const InterruptHandler handler("stopping soon");
  testing::internal::CaptureStderr();
  raise(SIGTERM);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "stopping soon\n");
}

TEST(Interrupt, AHangupThatIsIgnoredStaysIgnored) {
  ::signal(SIGHUP, SIG_IGN);  // what nohup does
  {
    const InterruptHandler handler;
    raise(SIGHUP);
    EXPECT_FALSE(interrupted());
  }
  ::signal(SIGHUP, SIG_DFL);
}

TEST(Interrupt, AClosedPipeDoesNotEndTheProcess) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const InterruptHandler handler;
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_FALSE(interrupted()) << "not a request to stop";
  close(ends[1]);
}

}  // namespace
}  // namespace emblem
