#include "core/device/gpu_monitor.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

TEST(GpuMonitor, SaysNothingOfAGpuThatIsNotThere) {
  GpuMonitor monitor("ffff:ff:1f.0");
  EXPECT_FALSE(monitor.stop());
  EXPECT_FALSE(monitor.stop());  // again: the same answer
}

}  // namespace
}  // namespace emblem
