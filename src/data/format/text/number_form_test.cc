#include "data/format/text/number_form.h"

#include <gtest/gtest.h>

#include <optional>

namespace emblem {
namespace {

std::optional<float> amount(const char* text, config::NumberFormat format) {
  float value = 0;
  return parse_amount(text, format, value) ? std::optional(value) : std::nullopt;
}

TEST(NumberForm, AmountsHaveGroupsCurrenciesAndSigns) {
  const auto commas = [](const char* text) { return amount(text, config::COMMA_GROUPS); };
  EXPECT_EQ(commas("$3,456"), 3456);
  EXPECT_EQ(commas("-$1,234,567.50"), -1234567.5f);
  EXPECT_EQ(commas("$-5"), -5);
  EXPECT_EQ(commas("(1,000)"), -1000);
  EXPECT_EQ(commas("12 %"), 12);
  EXPECT_EQ(commas("USD 7.25"), 7.25f);
  EXPECT_EQ(commas("£99"), 99);
  EXPECT_EQ(commas("1234.5"), 1234.5f);
  for (const char* text : {"1,23", "1,2,3", "0,123", "12,3456", "a", "$", "1.2.3", "", "1,234,5"})
    EXPECT_EQ(commas(text), std::nullopt) << text;
  const auto points = [](const char* text) { return amount(text, config::POINT_GROUPS); };
  EXPECT_EQ(commas("1'234'567.50"), 1234567.5f) << "Switzerland";
  EXPECT_EQ(commas("CHF 1\u2019234.50"), 1234.5f);
  EXPECT_EQ(commas("\u22127.25"), -7.25f) << "the sign that spreadsheets and web pages have";
  EXPECT_EQ(commas("1,234.50-"), -1234.5f) << "SAP";
  EXPECT_EQ(commas("Rs. 1,234"), 1234);
  EXPECT_EQ(points("1\u00a0234\u00a0567,50\u00a0€"), 1234567.5f) << "France";
  EXPECT_EQ(points("62\u202f290,17"), 62290.17f);
  EXPECT_EQ(points("62 290,17 kr"), 62290.17f) << "Sweden";
  EXPECT_EQ(points("62 290 Kč"), 62290);
  EXPECT_EQ(points("12,5\u00a0%"), 12.5f);
  for (const char* text : {"123 456", "1 23,50", "1.234 567,5", "1'23", "7--", "-", "06 12 34"}) {
    EXPECT_EQ(points(text), std::nullopt) << text;
    EXPECT_EQ(commas(text), std::nullopt) << text;
  }
  EXPECT_EQ(points("3,14"), 3.14f);
  EXPECT_EQ(points("1.234,50 €"), 1234.5f);
  EXPECT_EQ(points("1.234"), 1234);
  EXPECT_EQ(points("1.5"), std::nullopt);
}

}  // namespace
}  // namespace emblem
