#include "data/format/text/date_text.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include "data/format/text/text_scan.h"
#include "data/format/text/time_text.h"

namespace emblem {
namespace {

constexpr int64_t kSecondsInADay = 86400;

// Takes up to `most` digits off the front. Returns their count; 0: there is none, or too many.
size_t take_digits(std::string_view& text, size_t most, int& value) {
  size_t count = 0;
  value = 0;
  while (count < text.size() && text[count] >= '0' && text[count] <= '9') {
    if (count == most) return 0;
    value = value * 10 + (text[count++] - '0');
  }
  text.remove_prefix(count);
  return count;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

// Takes a word that is one of `names`, or its first three letters or more, off the front. Returns
// its number from 1 on; 0: there is none.
int take_name(std::string_view& text, std::span<const std::string_view> names) {
  size_t size = 0;
  while (size < text.size() && is_letter(text[size])) ++size;
  if (size < 3) return 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool is_it = size <= names[i].size() &&
                       std::equal(text.begin(), text.begin() + static_cast<ptrdiff_t>(size),
                                  names[i].begin(), [](char a, char b) { return lower(a) == b; });
    if (!is_it) continue;
    text.remove_prefix(size);
    take(text, '.');
    return static_cast<int>(i) + 1;
  }
  return 0;
}

int take_month(std::string_view& text) {
  static constexpr std::string_view kMonths[] = {"january",   "february", "march",    "april",
                                                 "may",       "june",     "july",     "august",
                                                 "september", "october",  "november", "december"};
  return take_name(text, kMonths);
}

// "Tue, ", "Tuesday "
void skip_weekday(std::string_view& text) {
  static constexpr std::string_view kDays[] = {"monday", "tuesday",  "wednesday", "thursday",
                                               "friday", "saturday", "sunday"};
  if (take_name(text, kDays) == 0) return;
  take(text, ',');
  text = without_spaces(text);
}

int full_year(int year, size_t digits) {
  return digits == 4 ? year : year + (year < 69 ? 2000 : 1900);
}

// "October 11, 2022"
std::optional<int64_t> take_date_after_month(std::string_view& text) {
  const int month = take_month(text);
  if (month == 0 || !take(text, ' ')) return {};
  int day = 0, year = 0;
  text = without_spaces(text);
  const size_t day_digits = take_digits(text, 2, day);
  const bool has_comma = take(text, ',');
  if (day_digits == 0 || (!take(text, ' ') && !has_comma)) return {};
  text = without_spaces(text);
  if (take_digits(text, 4, year) != 4) return {};
  return days_of(year, month, day);
}

// "Oct-22", "Oct 2022" after the number of the day, or "Oct-11" after a year.
std::optional<int64_t> take_date_with_month(std::string_view& text, int first, size_t first_digits,
                                            char separator) {
  const int month = take_month(text);
  if (month == 0 || !take(text, separator)) return {};
  int last = 0;
  const size_t last_digits = take_digits(text, 4, last);
  if (first_digits == 4) return last_digits > 2 ? std::nullopt : days_of(first, month, last);
  if (last_digits != 2 && last_digits != 4) return {};
  return days_of(full_year(last, last_digits), month, first);
}

// The date that `text` starts with, which is taken off.
std::optional<int64_t> take_date(std::string_view& text, DateOrder order) {
  skip_weekday(text);
  if (!text.empty() && is_letter(text.front())) return take_date_after_month(text);
  int first = 0, second = 0, third = 0;
  const size_t first_digits = take_digits(text, 4, first);
  if (first_digits == 0 || first_digits == 3 || text.empty()) return {};
  const char separator = text.front();
  if (separator != '-' && separator != '/' && separator != '.' && separator != ' ') return {};
  text.remove_prefix(1);
  if (!text.empty() && is_letter(text.front()))
    return take_date_with_month(text, first, first_digits, separator);
  if (separator == ' ') return {};
  const size_t second_digits = take_digits(text, 2, second);
  if (second_digits == 0 || !take(text, separator)) return {};
  const size_t third_digits = take_digits(text, 4, third);
  if (first_digits == 4) {
    if (third_digits == 0 || third_digits > 2) return {};
    return days_of(first, second, third);
  }
  if (third_digits != 2 && third_digits != 4) return {};
  const int year = full_year(third, third_digits);
  const bool day_first = separator == '.' || order == DateOrder::kDayFirst;
  return day_first ? days_of(year, second, first) : days_of(year, first, second);
}

// "+02:00", "-0530", "Z" and nothing: seconds that local time is ahead of UTC.
std::optional<int64_t> offset_of(std::string_view text) {
  if (text.empty() || text == "Z" || text == "UTC" || text == "GMT") return 0;
  const bool is_behind = text.front() == '-';
  if (!is_behind && text.front() != '+') return {};
  text.remove_prefix(1);
  const size_t colon = text.find(':');
  std::string_view minutes_text =
      colon == text.npos ? text.substr(std::min<size_t>(2, text.size())) : text.substr(colon + 1);
  std::string_view hours_text = text.substr(0, colon == text.npos ? 2 : colon);
  int hours = 0, minutes = 0;
  if (take_digits(hours_text, 2, hours) == 0 || !hours_text.empty()) return {};
  if (!minutes_text.empty() &&
      (take_digits(minutes_text, 2, minutes) == 0 || !minutes_text.empty()))
    return {};
  const int64_t seconds = hours * 3600 + minutes * 60;
  return is_behind ? -seconds : seconds;
}

// "10:00", "10:00:00.5+02:00", "1:30 PM"; seconds of the day in UTC.
std::optional<double> time_of(std::string_view text) {
  int hour = 0, minute = 0, second = 0;
  double fraction = 0;
  if (take_digits(text, 2, hour) == 0 || !take(text, ':') || take_digits(text, 2, minute) == 0)
    return {};
  if (take(text, ':') && take_digits(text, 2, second) == 0) return {};
  if (!text.empty() && (text.front() == '.' || text.front() == ',')) {
    double scale = 0.1;
    for (text.remove_prefix(1); !text.empty() && text.front() >= '0' && text.front() <= '9';
         text.remove_prefix(1), scale /= 10)
      fraction += scale * (text.front() - '0');
  }
  text = without_spaces(text);
  if (text.size() >= 2 && lower(text[1]) == 'm' && text[0] != 'G') {  // not of GMT
    const bool is_pm = lower(text[0]) == 'p';
    if ((!is_pm && lower(text[0]) != 'a') || hour < 1 || hour > 12) return {};
    hour = hour % 12 + (is_pm ? 12 : 0);
    text = without_spaces(text.substr(2));
  }
  const std::optional<int64_t> offset = offset_of(text);
  if (!offset || hour > 23 || minute > 59 || second > 60) return {};
  return hour * 3600 + minute * 60 + second + fraction - static_cast<double>(*offset);
}

}  // namespace

std::optional<DateTime> parse_date(std::string_view text, DateOrder order) {
  text = without_spaces(text);
  const std::optional<int64_t> days = take_date(text, order);
  if (!days) return {};
  if (text.empty()) return DateTime{*days, 0};
  const bool has_comma = take(text, ',');
  // Web servers write 11/Oct/2022:20:32:00 +0000.
  if (!take(text, 'T') && !take(text, ' ') && (has_comma || !take(text, ':'))) return {};
  const std::optional<double> seconds = time_of(without_spaces(text));
  if (!seconds) return {};
  const double carried = std::floor(*seconds / kSecondsInADay);
  return DateTime{*days + static_cast<int64_t>(carried), *seconds - carried * kSecondsInADay};
}

DateTime date_of_units(int64_t value, int64_t units) {
  const int64_t days = value / units - (value % units < 0 ? 1 : 0);
  const auto rest = static_cast<double>(value - days * units);
  return {days, rest * kSecondsInADay / static_cast<double>(units)};
}

DateTime date_of_number(int64_t value) {
  if (value >= 1000'01'01 && value <= 9999'12'31) {
    const auto year = static_cast<int>(value / 10000), rest = static_cast<int>(value % 10000);
    if (const auto days = days_of(year, rest / 100, rest % 100)) return {*days, 0};
  }
  int64_t units = kSecondsInADay;
  const double size = std::abs(static_cast<double>(value));
  for (const double limit : {1e11, 1e14, 1e17})
    if (size >= limit) units *= 1000;
  return date_of_units(value, units);
}

int64_t units_in_a_day(std::string_view stored) {
  if (stored == "date32[day]") return 1;
  if (stored.starts_with("timestamp[s")) return kSecondsInADay;
  if (stored.starts_with("timestamp[ms")) return kSecondsInADay * 1'000;
  if (stored.starts_with("timestamp[us")) return kSecondsInADay * 1'000'000;
  return stored.starts_with("timestamp[") ? kSecondsInADay * 1'000'000'000 : 0;
}

float date_number(const DateTime& date, config::DatePart part) {
  const std::chrono::sys_days day{std::chrono::days{static_cast<int32_t>(date.days)}};
  const std::chrono::year_month_day parts{day};
  switch (part) {
    case config::HOUR:
      return static_cast<float>(static_cast<int>(date.seconds) / 3600);
    case config::WEEKDAY:
      return static_cast<float>(std::chrono::weekday{day}.iso_encoding() - 1);
    case config::MONTH:
      return static_cast<float>(static_cast<unsigned>(parts.month()));
    case config::MONTH_DAY:
      return static_cast<float>(static_cast<unsigned>(parts.day()));
    default:
      break;
  }
  return static_cast<float>(static_cast<double>(date.days) + date.seconds / kSecondsInADay);
}

}  // namespace emblem
