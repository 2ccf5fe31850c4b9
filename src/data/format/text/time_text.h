// data/format/text/time_text.h - dates and times as ISO 8601 has them, as pandas, Polars, DuckDB
// and Arrow write them to text files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/format/value_type.h"

namespace emblem {

// How a date or a time is written.
struct TimeFormat {
  static constexpr int kTrimmed = -1;

  bool has_date = true;
  bool has_clock = false;
  char separator = ' ';  // between date and clock
  int digits = 0;        // after the point; kTrimmed: without zeros at the end
  std::string zone;      // "", "Z", "+00:00" and the like: UTC

  bool operator==(const TimeFormat&) const = default;
};

// Days since 1970 of a date; nothing where there is no such day.
std::optional<int64_t> days_of(int64_t year, int64_t month, int64_t day);

// A point in time, or a time of a day (`days` is 0).
struct Moment {
  int64_t days = 0;         // since 1970
  int64_t nanoseconds = 0;  // since the start of that day

  auto operator<=>(const Moment&) const = default;
};

// "2026-11-16", "2026-11-16 12:30:00.25", "2026-11-16T12:30:00Z", "2026-11-16 12:30+01:00",
// "12:30:00" as the point in time and how it is written; for another zone than UTC, `format` has
// that zone, in which nothing is written. False where the text is anything else.
bool parse_moment(std::string_view text, Moment& moment, TimeFormat& format);

// Appends the text; false where the format does not hold the value, or where its year has not four
// digits.
bool write_moment(const Moment& moment, const TimeFormat& format, std::string& text);

// The moment that `ticks` of `type` are; not of durations.
Moment moment_of(int64_t ticks, const ValueType& type);

// The ticks of `type` that a text stands for. False where the text is no date or time of this kind,
// or is not a whole number of ticks. Durations have no such text.
bool parse_time(std::string_view text, const ValueType& type, int64_t& ticks);

// Appends the text that parse_time reads as the same: "2026-11-16", "2026-11-16 12:30:00.25",
// "12:30:00". Durations, and years that have not four digits, are the integer.
void write_time(int64_t ticks, const ValueType& type, std::string& text);

}  // namespace emblem
