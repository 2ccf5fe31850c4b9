#include "core/text/parse_number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace emblem {
namespace {

TEST(ParseNumber, TakesTextThatIsANumberAsAWhole) {
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<uint16_t>("65535"), 65535);
  EXPECT_EQ(parse_number<double>("2.5e3"), 2500.0);
}

TEST(ParseNumber, RefusesAllOther) {
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x10", "one"})
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  EXPECT_EQ(parse_number<uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(parse_number<uint16_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_number<int>("1.5"), std::nullopt);
}

}  // namespace
}  // namespace emblem
