#include "data/format/text/time_text.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>

#include "data/format/text/number_text.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {

std::optional<int64_t> days_of(int64_t year, int64_t month, int64_t day) {
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return {};
  return std::chrono::sys_days(date).time_since_epoch().count();
}

namespace {

constexpr int64_t kSecond = 1000000000;  // in nanoseconds
constexpr int64_t kDay = 86400 * kSecond;

// Takes `digits` digits off the front.
bool take_digits(std::string_view& text, size_t digits, int64_t& number) {
  if (text.size() < digits || text[0] == '-') return false;
  const char* const end = text.data() + digits;
  if (std::from_chars(text.data(), end, number).ptr != end) return false;
  text.remove_prefix(digits);
  return true;
}

// "2026-11-16" as days since 1970.
bool take_date(std::string_view& text, int64_t& days) {
  int64_t year = 0, month = 0, day = 0;
  if (!take_digits(text, 4, year) || !take(text, '-') || !take_digits(text, 2, month) ||
      !take(text, '-') || !take_digits(text, 2, day))
    return false;
  const auto found = days_of(year, month, day);
  days = found.value_or(0);
  return found.has_value();
}

// ".25" in nanoseconds and its digits; nothing is 0.
bool take_fraction(std::string_view& text, int64_t& nanoseconds, int& digits) {
  nanoseconds = 0;
  digits = 0;
  if (!take(text, '.')) return true;
  const size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  if (count == 0 || count > 9 || !take_digits(text, count, nanoseconds)) return false;
  for (size_t i = count; i < 9; ++i) nanoseconds *= 10;
  digits = static_cast<int>(count);
  return true;
}

// "12:30:00.25" and "12:30" in nanoseconds.
bool take_clock(std::string_view& text, int64_t& nanoseconds, int& digits) {
  int64_t hours = 0, minutes = 0, seconds = 0, fraction = 0;
  if (!take_digits(text, 2, hours) || !take(text, ':') || !take_digits(text, 2, minutes))
    return false;
  if (take(text, ':') && (!take_digits(text, 2, seconds) || !take_fraction(text, fraction, digits)))
    return false;
  if (hours > 23 || minutes > 59 || seconds > 59) return false;
  nanoseconds = ((hours * 60 + minutes) * 60 + seconds) * kSecond + fraction;
  return true;
}

// "Z", " UTC", "+01:00", "+0100", "+01"; nothing is UTC. In nanoseconds.
bool parse_zone(std::string_view text, int64_t& nanoseconds) {
  nanoseconds = 0;
  if (text.empty() || text == "Z" || text == " UTC" || text == "UTC") return true;
  const bool is_west = text.front() == '-';
  if (!take(text, '+') && !take(text, '-')) return false;
  int64_t hours = 0, minutes = 0;
  if (!take_digits(text, 2, hours)) return false;
  take(text, ':');
  if (!text.empty() && !take_digits(text, 2, minutes)) return false;
  nanoseconds = (hours * 60 + minutes) * 60 * kSecond * (is_west ? -1 : 1);
  return text.empty();
}

// Writes days since 1970; false where the year has not four digits.
bool write_day(int64_t days, std::string& text) {
  constexpr int64_t kFirst = -719528, kLast = 2932896;
  if (days < kFirst || days > kLast) return false;
  const std::chrono::year_month_day date{
      std::chrono::sys_days{std::chrono::days{static_cast<int32_t>(days)}}};
  text += fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  return true;
}

// False where the fraction has more digits.
bool write_clock(int64_t nanoseconds, int digits, std::string& text) {
  const int64_t seconds = nanoseconds / kSecond;
  text += fmt::format("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  std::string fraction = fmt::format("{:09}", nanoseconds % kSecond);
  const size_t needed = fraction.find_last_not_of('0') + 1;
  const size_t shown = digits == TimeFormat::kTrimmed ? needed : static_cast<size_t>(digits);
  if (shown > 0) text += cat(".", fraction.substr(0, shown));
  return needed <= shown;
}

}  // namespace

bool parse_moment(std::string_view text, Moment& moment, TimeFormat& format) {
  moment = {};
  format = {};
  format.has_date = text.size() > 4 && text[4] == '-';
  if (format.has_date && !take_date(text, moment.days)) return false;
  if (format.has_date && text.empty()) return true;
  format.has_clock = true;
  if (format.has_date) {
    format.separator = text.front();
    if (!take(text, ' ') && !take(text, 'T')) return false;
  }
  int64_t zone = 0;
  if (!take_clock(text, moment.nanoseconds, format.digits) || !parse_zone(text, zone) ||
      (!format.has_date && !text.empty()))
    return false;
  format.zone = text;
  moment.nanoseconds -= zone;
  if (moment.nanoseconds < 0 || moment.nanoseconds >= kDay) {
    const int64_t days = moment.nanoseconds < 0 ? -1 : 1;
    moment.days += days;
    moment.nanoseconds -= days * kDay;
  }
  return true;
}

bool write_moment(const Moment& moment, const TimeFormat& format, std::string& text) {
  if (format.has_date ? !write_day(moment.days, text) : moment.days != 0) return false;
  if (!format.has_clock) return moment.nanoseconds == 0;
  if (format.has_date) text += format.separator;
  const bool is_exact = write_clock(moment.nanoseconds, format.digits, text);
  text += format.zone;
  return is_exact;
}

Moment moment_of(int64_t ticks, const ValueType& type) {
  const int64_t per_day = type.ticks_per_day;
  const int64_t in_day = (ticks % per_day + per_day) % per_day;
  return {(ticks - in_day) / per_day, in_day * (kDay / per_day)};
}

bool parse_time(std::string_view text, const ValueType& type, int64_t& ticks) {
  Moment moment;
  TimeFormat format;
  const bool is_time_of_day = type.kind == ValueKind::kTime;
  if ((!is_time_of_day && !type.is_point_in_time()) || !parse_moment(text, moment, format) ||
      format.has_date == is_time_of_day)
    return false;
  constexpr ValueType kNanoseconds{ValueKind::kTimestamp, kDay};
  int64_t start = 0, in_day = 0;
  return !__builtin_mul_overflow(moment.days, type.ticks_per_day, &start) &&
         convert_ticks(moment.nanoseconds, kNanoseconds, type, in_day) &&
         !__builtin_add_overflow(start, in_day, &ticks);
}

void write_time(int64_t ticks, const ValueType& type, std::string& text) {
  const size_t before = text.size();
  if (type.kind != ValueKind::kDuration) {
    const Moment moment = moment_of(ticks, type);
    const bool is_date = type.kind == ValueKind::kDate && moment.nanoseconds == 0;
    const TimeFormat format{
        .has_date = type.is_point_in_time(), .has_clock = !is_date, .digits = TimeFormat::kTrimmed};
    if (write_moment(moment, format, text)) return;
  }
  text.resize(before);
  write_integer(ticks, text);
}

}  // namespace emblem
