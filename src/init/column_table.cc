#include "init/column_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "data/format/decoder.h"
#include "init/pipeline_text.h"

namespace emblem {
namespace {

constexpr size_t kMostLines = 200;
constexpr size_t kNameWidth = 30, kFeatureWidth = 38;

// Cut or padded to `width` characters.
std::string fit(const std::string& text, size_t width) {
  std::string shown;
  size_t characters = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (end < text.size() && (text[end] & 0xc0) == 0x80) ++end;
    if (characters + 1 == width && end < text.size()) {
      shown += "~";
      ++characters;
      break;
    }
    shown += text.substr(at, end - at);
    ++characters;
    at = end;
  }
  return shown + std::string(width - std::min(width, characters), ' ');
}

std::string feature_text(const ColumnChoice& choice, const LabelChoice& label) {
  switch (choice.use) {
    case ColumnUse::kLabel:
      return label.positive.empty() ? "label"
                                    : fmt::format("label, {} is 1", in_quotes(label.positive));
    case ColumnUse::kWeight:
      return "sample weight";
    case ColumnUse::kSkipped:
      return "skipped: " + choice.why;
    case ColumnUse::kNumber:
      return fmt::format(
          "{}, {}", choice.value_dim > 0 ? fmt::format("{} numbers", choice.value_dim) : "number",
          choice.normalizer == "method=log1p" ? "log1p" : "zscore");
    case ColumnUse::kCategory:
      break;
  }
  const int64_t buckets = hash_bucket_size_for(choice.distinct);
  const std::string kind = choice.separator.empty()
                               ? "category"
                               : fmt::format("list by {}", in_quotes(choice.separator));
  return buckets > 0 ? fmt::format("{}, hash of {}", kind, buckets)
                     : fmt::format("{}, dynamic up to {}", kind, capacity_for(choice.distinct));
}

std::string line_of(const ColumnProfile& column, const ColumnChoice& choice,
                    const LabelChoice& label) {
  const double missing = 100 * choice.missing_share;
  return fmt::format("{} {:<8} {:>8} {:>10}  {}\n", fit(printable(column.name), kNameWidth),
                     choice.found, missing > 0 ? fmt::format("{:.1f} %", missing) : "-",
                     fmt::format("{}{}", column.distinct.exact() ? "" : "~",
                                 column.distinct_count() + choice.absent_values),
                     trim(fit(printable(feature_text(choice, label)), kFeatureWidth)));
}

}  // namespace

std::string column_table(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
                         const LabelChoice& label) {
  std::string text = fmt::format("{} {:<8} {:>8} {:>10}  {}\n", fit("column", kNameWidth), "found",
                                 "missing", "distinct", "feature");
  for (size_t i = 0; i < std::min(columns.size(), kMostLines); ++i)
    text += line_of(profile.columns[i], columns[i], label);
  if (columns.size() > kMostLines)
    text += fmt::format("and {} columns more\n", columns.size() - kMostLines);
  const std::string of_all =
      profile.all_read ? "" : fmt::format(" of about {}", format_count(profile.total_rows));
  return text + fmt::format("\n{}{} rows read, {:.2f} % of them positive\n", profile.rows_read,
                            of_all, 100 * label.share);
}

}  // namespace emblem
