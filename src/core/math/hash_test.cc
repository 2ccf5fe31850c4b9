#include "core/math/decimal_hash.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "core/math/random.h"

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

TEST(FgHash, IntegersAreHashedAsTheirText) {
  const auto expect_same = [](int64_t value) {
    EXPECT_EQ(fg_hash_decimal(value), fg_hash(std::to_string(value))) << value;
  };
  int64_t power = 1;
  for (int digits = 1; digits < 19; ++digits, power *= 10) {
    for (const int64_t near : {power - 1, power, power + 1, 9 * power, -power}) expect_same(near);
  }
  for (const int64_t value : {INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX})
    expect_same(value);
  Random random{3};
  for (int i = 0; i < 100'000; ++i)
    expect_same(static_cast<int64_t>(random.below(uint64_t{1} << (1 + i % 63))));
}

// Hashes are read from files: the bytes of a text must count as they always have.
TEST(RestOfWord, HasTheBytesInOrder) {
  const std::string text = "\x81\x92\xa3\xb4\xc5\xd6\xe7";
  for (size_t begin = 0; begin < text.size(); ++begin) {
    uint64_t expected = 0;
    std::memcpy(&expected, text.data() + begin, text.size() - begin);
    EXPECT_EQ(rest_of_word(text.data() + begin, text.size() - begin), expected) << begin;
  }
}

}  // namespace
}  // namespace emblem
