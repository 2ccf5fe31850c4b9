#include "core/math/hidden_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace emblem {
namespace {

// Pairs with the same std::hash. Two words of 8 bytes that differ in their highest bit after
// they are mixed cancel each other, whatever the seed is (MurmurHash64A).
std::vector<std::string> colliding_texts(int pairs) {
  constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995ull;
  uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kMultiplier * inverse;
  const auto unmixed = [&](uint64_t word) {
    word *= inverse;
    word ^= word >> 47;
    return word * inverse;
  };
  std::vector<std::string> texts(1);
  for (int pair = 0; pair < pairs; ++pair) {
    std::vector<std::string> longer;
    for (const uint64_t high : {uint64_t{0}, uint64_t{1} << 63}) {
      const uint64_t words[] = {unmixed(0x1234567 ^ high), unmixed(0x89abcde ^ high)};
      for (const std::string& text : texts)
        longer.push_back(text + std::string(reinterpret_cast<const char*>(words), sizeof words));
    }
    texts = std::move(longer);
  }
  return texts;
}

TEST(HiddenHashTest, TextsWithOneHashOfTheStandardLibraryHaveDifferentOnes) {
  const std::vector<std::string> texts = colliding_texts(10);
  std::set<std::string> different(texts.begin(), texts.end());
  ASSERT_EQ(different.size(), 1024u);
  std::set<size_t> known, hidden;
  for (const std::string& text : texts) {
    known.insert(std::hash<std::string_view>()(text));
    hidden.insert(HiddenHash()(text));
  }
#ifdef __GLIBCXX__
  EXPECT_EQ(known.size(), 1u);
#endif
  EXPECT_EQ(hidden.size(), 1024u);
}

TEST(HiddenHashTest, DependsOnTheSeedAndOnEveryByte) {
  EXPECT_EQ(hidden_seed(), hidden_seed());
  EXPECT_EQ(hidden_hash("text", 1), hidden_hash("text", 1));
  std::set<uint64_t> of_texts, of_keys;
  for (const uint64_t seed : {1000, 2000, 3000}) {
    for (const std::string_view text : {"", "a", "b", "abcdefgh", "abcdefgi", "abcdefghi"})
      of_texts.insert(hidden_hash(text, seed));
    for (const int64_t key : {-1, 0, 1}) of_keys.insert(hidden_hash(key, seed));
  }
  EXPECT_EQ(of_texts.size(), 18u);
  EXPECT_EQ(of_keys.size(), 9u);
}

}  // namespace
}  // namespace emblem
