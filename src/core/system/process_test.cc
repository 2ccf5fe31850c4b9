#include "core/system/process.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <vector>

namespace emblem {
namespace {

TEST(Process, ResidentMemoryGrowsWithWhatIsTouched) {
  constexpr int64_t kBytes = 64 << 20;
  const int64_t before = resident_bytes();
  std::vector<char> touched(kBytes, 1);
  EXPECT_GE(resident_bytes(), before + kBytes * 9 / 10);
  EXPECT_GE(peak_resident_bytes(), before + kBytes * 9 / 10);
  EXPECT_EQ(touched[kBytes / 2], 1);
}

TEST(Process, ThePeakCanBeCountedAnew) {
  constexpr int64_t kBytes = 256 << 20;
  {
    const std::vector<char> touched(kBytes, 1);
    EXPECT_EQ(touched[kBytes / 2], 1);
  }
  const int64_t before = peak_resident_bytes();
  reset_peak_resident_bytes();
  if (peak_resident_bytes() == before) GTEST_SKIP() << "this system does not let it";
  EXPECT_LT(peak_resident_bytes(), before - kBytes / 2);
}

TEST(Process, AvailableMemoryIsAPartOfTheMachines) {
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LE(available_memory_bytes(), total_memory_bytes());
}

TEST(Process, CpuTimeRisesWithWork) {
  const double before = cpu_seconds();
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < 50'000'000; ++i) sum = sum + i;
  EXPECT_GT(cpu_seconds(), before);
}

TEST(Process, TheMachineHasANameAndMemory) {
  EXPECT_FALSE(cpu_model().empty());
  EXPECT_GT(total_memory_bytes(), resident_bytes());
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LE(available_memory_bytes(), total_memory_bytes());
}

TEST(Process, TheProgramKnowsWhereItLies) {
  EXPECT_EQ(std::filesystem::path(program_path()).filename(), "core_test");
  EXPECT_TRUE(std::filesystem::path(program_path()).is_absolute());
}

TEST(Process, TheMachineIsAtLeastAsBusyAsThisProcess) {
  const double before = machine_busy_seconds(), own_before = cpu_seconds();
  while (cpu_seconds() - own_before < 0.1) continue;
  EXPECT_GE(machine_busy_seconds() - before, 0.05);  // counted in hundredths
}

TEST(Process, ADriverIsNamedWhereAGpuIs) { EXPECT_EQ(gpu_model().empty(), gpu_driver().empty()); }

}  // namespace
}  // namespace emblem
