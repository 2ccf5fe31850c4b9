#include "data/format/text/text_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "core/math/random.h"

namespace emblem {
namespace {

TEST(ScanHex8, AgreesWithStrtoulOnRandomWordsOfBothCases) {
  Random random{1, 2};
  for (int i = 0; i < 100000; ++i) {
    char text[16];
    std::snprintf(text, sizeof text, i % 2 ? "%08x" : "%08X", static_cast<unsigned>(random.bits()));
    uint32_t word = 0;
    ASSERT_TRUE(scan_hex8(text, word)) << text;
    ASSERT_EQ(word, std::strtoul(text, nullptr, 16)) << text;
  }
}

TEST(ScanHex8, RejectsEveryOtherCharacterAtEveryPlace) {
  for (int place = 0; place < 8; ++place) {
    for (int c = 0; c < 256; ++c) {
      std::string text = "0a9fF1e7";
      text[place] = static_cast<char>(c);
      uint32_t word = 0;
      EXPECT_EQ(scan_hex8(text.data(), word), std::isxdigit(c) != 0) << c << " at " << place;
    }
  }
}

TEST(ScanSmallInteger, ReadsDigitsSignsAndNothing) {
  float value = 0;
  std::string text = "-123\t";
  EXPECT_EQ(scan_small_integer(text.data(), value), text.data() + 4);
  EXPECT_EQ(value, -123.0f);
  text = "999999999\t";
  EXPECT_EQ(scan_small_integer(text.data(), value), text.data() + 9);
  EXPECT_EQ(value, 999999999.0f);
  text = "\t";
  EXPECT_EQ(scan_small_integer(text.data(), value), text.data());
  EXPECT_TRUE(std::isnan(value));
  text = "1234567890\t";
  EXPECT_EQ(scan_small_integer(text.data(), value), nullptr) << "too long for the fast way";
  text = "-\t";
  EXPECT_EQ(scan_small_integer(text.data(), value), nullptr);
}

TEST(ParseFloat, AgreesWithStrtofOnRandomNumbers) {
  Random random{3, 2};
  for (int i = 0; i < 50000; ++i) {
    char text[64];
    std::snprintf(text, sizeof text,
                  i % 3 == 0   ? "%.9g"
                  : i % 3 == 1 ? "%.3f"
                               : "%.0f",
                  random.normal() * std::pow(10.0, static_cast<double>(random.below(12)) - 4));
    float value = 0;
    ASSERT_TRUE(parse_float(text, value)) << text;
    ASSERT_EQ(value, std::strtof(text, nullptr)) << text;
  }
}

TEST(ParseFloat, TakesSpacesAndSignsAndRejectsTheRest) {
  float value = 0;
  for (const char* good : {" 1.5 ", "+2", "-3e2", ".5", "5.", "1e-60"}) {
    EXPECT_TRUE(parse_float(good, value)) << good;
  }
  EXPECT_EQ(value, 0.0f) << "too small for a float";
  for (const char* bad :
       {"abc", "1,5", "1.5x", "--1", "+-1", "inf", "-infinity", "1e60", "0x10", "1 2"}) {
    EXPECT_FALSE(parse_float(bad, value)) << bad;
  }
  for (const char* missing : {"", "  ", "nan", "NaN"}) {
    EXPECT_TRUE(parse_float(missing, value)) << missing;
    EXPECT_TRUE(std::isnan(value)) << missing;
  }
}

TEST(ParseInteger, CoversAll64Bits) {
  int64_t value = 0;
  EXPECT_TRUE(parse_integer("-9223372036854775808", value));
  EXPECT_EQ(value, INT64_MIN);
  EXPECT_TRUE(parse_integer("18446744073709551615", value));
  EXPECT_EQ(value, -1);
  EXPECT_TRUE(parse_integer("17.00", value));
  EXPECT_EQ(value, 17);
  for (const char* bad :
       {"", "18446744073709551616", "-9223372036854775809", "1.5", "a", "1a", ".0", "-"}) {
    EXPECT_FALSE(parse_integer(bad, value)) << bad;
  }
}

TEST(ParseHexadecimal, ReadsUpTo16Digits) {
  int64_t value = 0;
  EXPECT_TRUE(parse_hexadecimal("fFfF", value));
  EXPECT_EQ(value, 0xffff);
  EXPECT_TRUE(parse_hexadecimal("ffffffffffffffff", value));
  EXPECT_EQ(value, -1);
  EXPECT_FALSE(parse_hexadecimal("0ffffffffffffffff", value));
  EXPECT_FALSE(parse_hexadecimal("", value));
  EXPECT_FALSE(parse_hexadecimal("12g4", value));
}

TEST(ParseDouble, IsInfiniteOrZeroBeyondTheRangeOfDoubles) {
  const std::string zeros(400, '0');
  const auto value_of = [](const std::string& text) {
    double value = 7;
    EXPECT_TRUE(parse_double(text, value)) << text;
    return value;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::string& large :
       {std::string("1e400"), std::string("42E432"), "1" + zeros, "+1" + zeros + ".5",
        "1" + zeros + "e-10", std::string("1e99999999999999999999")})
    EXPECT_EQ(value_of(large), infinity) << large;
  EXPECT_EQ(value_of("-1e309"), -infinity);
  for (const std::string& small : {std::string("1e-400"), "0." + zeros + "1", "0." + zeros + "1e10",
                                   std::string("5e-99999999999999999999")})
    EXPECT_EQ(value_of(small), 0) << small;
  EXPECT_TRUE(std::signbit(value_of("-1e-400")));
  float number = 7;
  EXPECT_TRUE(parse_float("1e-400", number));
  EXPECT_EQ(number, 0);
  EXPECT_FALSE(parse_float("1e400", number));
  EXPECT_TRUE(parse_any_float("-1e400", number));
  EXPECT_EQ(number, -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace emblem
