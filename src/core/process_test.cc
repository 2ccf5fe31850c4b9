#include "core/process.h"

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

TEST(Process, AvailableMemoryShrinksWithWhatIsTouched) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  if (available_memory_bytes() < 4 * kBytes) GTEST_SKIP() << "too little memory to see it";
  int64_t most = 0;  // others come and go on the same machine
  for (int i = 0; i < 50 && most < kBytes / 2; ++i) {
    const int64_t before = available_memory_bytes();
    const std::vector<char> touched(kBytes, 1);
    most = std::max(most, before - available_memory_bytes());
    EXPECT_EQ(touched[kBytes / 2], 1);
  }
  EXPECT_GE(most, kBytes / 2);
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

}  // namespace
}  // namespace emblem
