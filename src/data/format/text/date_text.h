// data/format/text/date_text.h - dates in text, as timestamps and as whole numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "config/proto/feature.pb.h"

namespace emblem {

// A point in time, in UTC.
struct DateTime {
  int64_t days = 0;    // since 1970-01-01
  double seconds = 0;  // seconds of the day
};

// What the first of three numbers with slashes or hyphens is, unless it is a year of four digits.
enum class DateOrder : uint8_t { kMonthFirst, kDayFirst };

// "2024-05-01", "2024/5/1T10:00Z", "2024-05-01 10:00:00.5+02:00", "01.05.2024" (the day first
// always), "5/1/24 10:00 AM", "May 1, 2024", "Wed, 1 May 2024 10:00:00 GMT", "01-May-24",
// "01/May/2024:10:00:00 +0000"; nothing for other text and for dates that do not exist.
std::optional<DateTime> parse_date(std::string_view text, DateOrder order);

// Units of this size since 1970.
DateTime date_of_units(int64_t value, int64_t units_in_a_day);

// 20240501; else seconds since 1970, or milli-, micro- and nanoseconds, by the number's size.
DateTime date_of_number(int64_t value);

// Units per day of a date or a timestamp as ColumnSpec::stored calls them; 0 for other columns.
int64_t units_in_a_day(std::string_view stored);

// What is kept of a date. `part` is not NO_DATE.
float date_number(const DateTime& date, config::DatePart part);

}  // namespace emblem
