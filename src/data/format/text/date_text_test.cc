#include "data/format/text/date_text.h"

#include <gtest/gtest.h>

namespace emblem {
namespace {

constexpr int64_t kFirstOfMay = 19844;  // 2024-05-01, a Wednesday

double seconds_of(const char* text) {
  const auto date = parse_date(text, DateOrder::kMonthFirst);
  return date ? date->seconds : -1;
}

TEST(DateText, DatesAreReadInTheFormsPeopleWriteThem) {
  for (const char* text : {"2024-05-01", "2024/5/1", "01.05.2024", "1.5.24", "5/1/2024", "5-1-24",
                           "May 1, 2024", "MAY 01 2024", "1 May 2024", "01-May-24", "1/may/2024",
                           "2024-May-01", "Wednesday, May 1, 2024", "Wed 1 May 2024"}) {
    const auto date = parse_date(text, DateOrder::kMonthFirst);
    ASSERT_TRUE(date) << text;
    EXPECT_EQ(date->days, kFirstOfMay) << text;
    EXPECT_EQ(date->seconds, 0) << text;
  }
  EXPECT_EQ(parse_date("1/5/2024", DateOrder::kDayFirst)->days, kFirstOfMay);
  for (const char* text :
       {"2024-05-01 13:30", "2024-05-01T13:30:00Z", "5/1/2024 1:30 PM", "2024-05-01 15:30:00+02:00",
        "2024-05-01T08:00:00.0-0530", "May 1, 2024 1:30 PM", "May 1, 2024, 1:30 PM",
        "Wed, 01 May 2024 13:30:00 GMT", "01-May-24 13:30", "01/May/2024:15:30:00 +0200"})
    EXPECT_EQ(seconds_of(text), 13.5 * 3600) << text;
  const auto before = parse_date("2024-05-01 01:00+02:00", DateOrder::kMonthFirst);
  EXPECT_EQ(before->days, kFirstOfMay - 1) << "in UTC";
  EXPECT_EQ(parse_date("Sept. 1, 2024", DateOrder::kMonthFirst)->days, kFirstOfMay + 123);
}

TEST(DateText, OtherTextIsNoDate) {
  for (const char* text : {"",
                           "2024",
                           "1.5",
                           "1.5.2",
                           "10-20",
                           "192.168.0.1",
                           "a-b-c",
                           "2024-05-01x",
                           "555-12-3456",
                           "12345-1-1",
                           "2023-02-29",
                           "13/13/2024",
                           "2024-05-01 25:00",
                           "2024-05-01 10",
                           "May",
                           "May 2024",
                           "Mayor 1, 2024",
                           "Ma 1, 2024",
                           "31-Feb-24",
                           "1 May",
                           "1 2 2024",
                           "1-May/24",
                           "May 1, 24",
                           "Marching 1 2024",
                           "Wed",
                           "2024-05-01:10:00x"})
    EXPECT_FALSE(parse_date(text, DateOrder::kMonthFirst)) << text;
}

TEST(DateText, NumbersAreDatesByTheirSize) {
  const int64_t seconds = kFirstOfMay * 86400 + 3600;
  for (const int64_t number : {seconds, seconds * 1000, seconds * 1000000, seconds * 1000000000}) {
    EXPECT_EQ(date_of_number(number).days, kFirstOfMay) << number;
    EXPECT_EQ(date_of_number(number).seconds, 3600) << number;
  }
  EXPECT_EQ(date_of_number(20240501).days, kFirstOfMay);
  EXPECT_EQ(date_of_units(-1, 1).days, -1);
  EXPECT_EQ(date_of_units(-1, 86400).seconds, 86399);
  EXPECT_EQ(units_in_a_day("date32[day]"), 1);
  EXPECT_EQ(units_in_a_day("timestamp[us, tz=UTC]"), 86400000000);
  EXPECT_EQ(units_in_a_day("int64"), 0);
}

TEST(DateText, PartsOfADate) {
  const DateTime date{kFirstOfMay, 13.5 * 3600};
  EXPECT_EQ(date_number(date, config::HOUR), 13);
  EXPECT_EQ(date_number(date, config::WEEKDAY), 2);
  EXPECT_EQ(date_number(date, config::MONTH), 5);
  EXPECT_EQ(date_number(date, config::MONTH_DAY), 1);
  EXPECT_EQ(date_number(date, config::DAYS), kFirstOfMay + 0.5625f);
}

}  // namespace
}  // namespace emblem
