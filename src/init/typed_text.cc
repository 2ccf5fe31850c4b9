#include "init/typed_text.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "data/format/date_text.h"
#include "data/format/number_text.h"

namespace emblem {
namespace {

// As parse_date reads it.
void write_date(int64_t value, int64_t units, std::string& text) {
  const DateTime time = date_of_units(value, units);
  // Years of four digits.
  constexpr int64_t kFirst = -719162, kLast = 2932896;
  if (time.days < kFirst || time.days > kLast) return write_integer(value, text);
  const std::chrono::year_month_day date{
      std::chrono::sys_days{std::chrono::days{static_cast<int32_t>(time.days)}}};
  text += fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  if (units == 1) return;
  const auto seconds = static_cast<int>(time.seconds);
  text += fmt::format(" {:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (const double fraction = time.seconds - seconds; fraction > 0)
    text += fmt::format("{:.9f}", fraction).substr(1);
}

void write_integer_of(const ColumnSpec& spec, int64_t units, int64_t value, std::string& text) {
  if (units > 0) return write_date(value, units, text);
  if (spec.stored == "uint64") return write_integer(static_cast<uint64_t>(value), text);
  write_integer(value, text);
}

}  // namespace

void typed_as_text(const ColumnSpec& spec, Column& column) {
  if (column.type == ColumnType::kText) return;
  Column text;
  text.clear(ColumnType::kText);
  const int64_t units = units_in_a_day(spec.stored);
  const size_t count = values_in(column);
  for (size_t at = 0; at < count; ++at) {
    if (column.type == ColumnType::kFloat) {
      if (!std::isnan(column.floats[at])) write_number(column.floats[at], text.text);
    } else if (column.missing.empty() || column.missing[at] == 0) {
      write_integer_of(spec, units, column.ints[at], text.text);
    }
    text.text_ends.push_back(static_cast<uint32_t>(text.text.size()));
  }
  column = std::move(text);
}

}  // namespace emblem
