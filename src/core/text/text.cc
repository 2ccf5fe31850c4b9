#include "core/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/text/utf8.h"
#include "emblem/error.h"

namespace emblem {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

std::string lowered(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// "steps" is likely to mean "num_steps", although most of its letters are missing.
bool is_part_of(std::string_view part, std::string_view whole) {
  return part.size() >= 4 && whole.find(part) != std::string_view::npos;
}

// U+0080 to U+009F: valid UTF-8, but not printable.
bool is_control(std::string_view sequence) {
  return sequence.size() == 2 && sequence[0] == '\xc2' && static_cast<uint8_t>(sequence[1]) < 0xa0;
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates) {
  const std::string wanted = lowered(name);
  std::optional<std::string> nearest;
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& candidate : candidates) {
    const std::string offered = lowered(candidate);
    const size_t longer = std::max(wanted.size(), offered.size());
    const double allowed = std::max<double>(1, static_cast<double>(longer / 3));
    auto distance = static_cast<double>(edit_distance(wanted, offered));
    const bool contained = is_part_of(wanted, offered) || is_part_of(offered, wanted);
    // After all candidates that are close letter by letter, the shortest first.
    if (contained && distance > allowed)
      distance = allowed + distance / 1000;
    else if (distance > allowed || distance >= static_cast<double>(longer))
      continue;
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

int64_t parse_size(std::string_view text, std::string_view what) {
  const std::string_view trimmed = trim(text);
  double number = 0;
  const auto [rest, error] =
      std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  const auto refuse = [&](const char* why) {
    throw Error(ErrorCode::kInvalidArgument,
                cat(what, " is \"", text, "\", ", why,
                    "; give a number such as 1000000, 1.5k, 512MB or 4GiB"));
  };
  if (error != std::errc() || !std::isfinite(number)) refuse("which is not a size");
  if (number < 0) refuse("which is negative");

  std::string unit = lowered(trim(trimmed.substr(static_cast<size_t>(rest - trimmed.data()))));
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  double base = 1000;
  if (unit.size() == 2 && unit.back() == 'i') {
    base = 1024;
    unit.pop_back();
  }
  double factor = 1;
  if (!unit.empty()) {
    const size_t power = std::string_view("kmgt").find(unit);
    if (unit.size() != 1 || power == std::string_view::npos) refuse("whose unit is unknown");
    factor = std::pow(base, static_cast<double>(power + 1));
  }
  if (factor == 1 && number != std::floor(number)) refuse("which is not a whole number");
  if (number * factor >= 9.2e18) refuse("which is too large");
  return static_cast<int64_t>(std::llround(number * factor));
}

std::string format_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; std::abs(bytes) >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

std::string format_count(double count) {
  static constexpr const char* kUnits[] = {"", " k", " M", " G", " T"};
  size_t unit = 0;
  for (; std::abs(count) >= 999.995 && unit + 1 < std::size(kUnits); ++unit) count /= 1000;
  if (unit == 0 && count == std::floor(count)) return fmt::format("{:.0f}", count);
  return fmt::format("{:.2f}{}", count, kUnits[unit]);
}

std::string format_duration(double seconds) {
  if (seconds < 0.0009995) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.009995) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_metric(double value) {
  return std::isnan(value) ? "n/a" : fmt::format("{:.6f}", value);
}

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto byte = static_cast<uint8_t>(text.front());
    const size_t length = utf8_length(text);
    if (length == 0 || byte < ' ' || byte == 0x7f || is_control(text.substr(0, length))) {
      shown += fmt::format("\\x{:02x}", byte);
      text.remove_prefix(1);
    } else {
      shown += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return shown;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    pieces.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return pieces;
    begin = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace emblem
