#include "core/device/cpu_level.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

namespace emblem {
namespace {

const std::vector<std::string_view> kLevels = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

TEST(CpuLevel, ThisCpuCanRunWhatTheTestsAreCompiledFor) {
#if defined(__x86_64__)
  const auto own = std::find(kLevels.begin(), kLevels.end(), cpu_level());
  ASSERT_NE(own, kLevels.end()) << cpu_level();
  const auto position = own - kLevels.begin();
#if defined(__AVX512BW__) && defined(__AVX512CD__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
  EXPECT_EQ(position, 3);
#elif defined(__AVX2__) && defined(__FMA__) && defined(__BMI2__)
  EXPECT_GE(position, 2);
#elif defined(__SSE4_2__) && defined(__POPCNT__)
  EXPECT_GE(position, 1);
#else
  EXPECT_GE(position, 0);
#endif
#else
  EXPECT_EQ(cpu_level(), "");
#endif
}

TEST(CpuLevel, TheLibraryKnowsItsOwn) {
#if defined(__x86_64__)
  std::vector<std::string_view> known = kLevels;
#else
  std::vector<std::string_view> known = {"armv8-a"};
#endif
  known.push_back("native");
  EXPECT_THAT(known, testing::Contains(compiled_level()));
}

}  // namespace
}  // namespace emblem
