#include "embedding/parts.h"

#include <algorithm>
#include <charconv>

#include "core/text/joined.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Advances `text` behind a number up to kParts; -1 if there is none.
int32_t take_number(std::string_view& text) {
  int32_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kParts) return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

}  // namespace

PartRange part_range_of(int32_t index, int32_t count) {
  EMBLEM_REQUIRE(count >= 1 && count <= kParts && index >= 0 && index < count, "holder ", index,
                 " of ", count, ": expected 0 <= holder < holders <= ", kParts);
  return {index * kParts / count, (index + 1) * kParts / count};
}

PartRange parse_part_range(std::string_view text) {
  std::string_view rest = text;
  const int32_t first = take_number(rest);
  const char sign = rest.empty() ? '\0' : rest.front();
  int32_t second = first;
  if (first >= 0 && (sign == '-' || sign == '/')) {
    rest.remove_prefix(1);
    second = take_number(rest);
  }
  const bool is_share = sign == '/';
  const bool is_valid = first >= (is_share ? 1 : 0) && second >= first && rest.empty() &&
                        (is_share || second < kParts);
  EMBLEM_REQUIRE(is_valid, "parts '", text, "': expected FIRST-LAST, both from 0 to ", kParts - 1,
                 ", as in 0-1364, or K/N, the K-th of N servers, as in 1/3");
  return is_share ? part_range_of(first - 1, second) : PartRange{first, second + 1};
}

std::string to_string(PartRange range) {
  if (range.count() <= 0) return "none";
  if (range.count() == 1) return std::to_string(range.first);
  return cat(range.first, "-", range.last - 1);
}

std::string to_string(const std::vector<PartRange>& ranges) {
  return joined(ranges, ", ", [](PartRange range) { return to_string(range); });
}

std::vector<PartRange> missing_parts(std::vector<PartRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](PartRange a, PartRange b) { return a.first < b.first; });
  std::vector<PartRange> missing;
  int32_t covered = 0;
  for (const PartRange range : ranges) {
    if (range.count() <= 0) continue;
    if (range.first > covered) missing.push_back({covered, range.first});
    covered = std::max(covered, range.last);
  }
  if (covered < kParts) missing.push_back({covered, kParts});
  return missing;
}

}  // namespace emblem
