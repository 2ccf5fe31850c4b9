#include "core/math/checksum.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "core/math/random.h"

namespace emblem {
namespace {

// Published values of XXH64 with seed 0.
TEST(Checksum, AgreesWithPublishedValues) {
  EXPECT_EQ(checksum_of(""), 0xEF46DB3751D8E999ull);
  EXPECT_EQ(checksum_of("a"), 0xD24EC4F1A98C6E5Bull);
  EXPECT_EQ(checksum_of("abc"), 0x44BC2CF5AD770999ull);
  EXPECT_EQ(checksum_of("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1ull);
}

TEST(Checksum, DoesNotDependOnHowTheInputIsCut) {
  Random random{.seed = 7};
  std::vector<unsigned char> data(1000);
  for (auto& byte : data) byte = static_cast<unsigned char>(random.bits());
  for (size_t size : {0, 1, 31, 32, 33, 64, 100, 1000}) {
    Checksum whole;
    whole.add(data.data(), size);
    for (int trial = 0; trial < 50; ++trial) {
      Checksum pieces;
      for (size_t at = 0; at < size;) {
        const size_t piece = std::min<size_t>(size - at, random.below(70));
        pieces.add(data.data() + at, piece);
        at += piece;
      }
      ASSERT_EQ(pieces.value(), whole.value()) << size << " bytes";
    }
  }
}

TEST(Checksum, ChangesWithEveryBit) {
  std::string text(77, 'x');
  const uint64_t original = checksum_of(text);
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_NE(checksum_of(text), original) << "bit " << bit;
    text[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
}

}  // namespace
}  // namespace emblem
