#include "core/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

namespace emblem {
namespace {

TEST(Interrupt, TheFirstSignalIsARequest) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const InterruptHandler handler;
    EXPECT_FALSE(interrupted());
    raise(signal);
    EXPECT_TRUE(interrupted());
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

}  // namespace
}  // namespace emblem
