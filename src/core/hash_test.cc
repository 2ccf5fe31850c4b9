#include "core/hash.h"

#include <gtest/gtest.h>

#include <utility>

namespace emblem {
namespace {

// Buckets of 100 in the published unit tests of TorchEasyRec.
TEST(FgHash, GivesThePublishedBuckets) {
  constexpr std::pair<const char*, uint64_t> kVectors[] = {
      {"abc", 33},         {"efg", 44},   {"hij", 66},    {"xyz", 13},   {"x", 35},
      {"y", 30},           {"z", 54},     {"0", 26},      {"1", 95},     {"2", 70},
      {"3", 13},           {"4", 56},     {"ua_ia", 37},  {"ua_ib", 90}, {"ub_ia", 5},
      {"ub_ib", 97},       {"uc_ic", 60}, {"ud_ic", 56},  {"ug_id", 40}, {"ug_ie", 57},
      {"uh_if", 55},       {"ua_abc", 2}, {"ua_efg", 42}, {"ua_hij", 3}, {"ub_hij", 23},
      {"match_feat_1", 71}};
  for (const auto& [text, bucket] : kVectors) EXPECT_EQ(fg_hash(text) % 100, bucket) << text;
}

}  // namespace
}  // namespace emblem
