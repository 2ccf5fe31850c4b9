#include "init/column_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "data/format/decoder.h"
#include "init/feature_text.h"
#include "init/lower_case.h"

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

std::string label_text(const LabelChoice& label) {
  switch (label.task) {
    case LabelTask::kClasses:
      return fmt::format("label, {} classes", label.classes.size());
    case LabelTask::kNumber:
      return "label, a number";
    case LabelTask::kBinary:
      break;
  }
  const std::string& positive = label.classes.empty() ? label.positive : label.classes[1];
  return positive.empty() ? "label" : fmt::format("label, {} is 1", in_quotes(positive));
}

std::string category_text(const ColumnChoice& choice) {
  const std::string kind =
      choice.use == ColumnUse::kSequence ? fmt::format("sequence of {}", in_quotes(choice.target))
      : choice.separator.empty()         ? "category"
                                         : fmt::format("list by {}", in_quotes(choice.separator));
  return choice.vocabulary.empty()
             ? fmt::format("{}, dynamic up to {}", kind, capacity_for(choice.distinct))
             : fmt::format("{}, {} words", kind, choice.vocabulary.size());
}

std::string date_text(const ColumnChoice& choice) {
  std::string text;
  for (const config::DatePart part : choice.parts)
    text += (text.empty() ? "" : ", ") + lower_case(config::DatePart_Name(part));
  return text;
}

std::string feature_text(const ColumnChoice& choice, const LabelChoice& label) {
  switch (choice.use) {
    case ColumnUse::kLabel:
      return label_text(label);
    case ColumnUse::kWeight:
      return "sample weight";
    case ColumnUse::kSkipped:
      return fmt::format("skipped: {}", choice.why);
    case ColumnUse::kDate:
      return date_text(choice);
    case ColumnUse::kNumber:
      return fmt::format(
          "{}, {}{}", choice.value_dim > 0 ? fmt::format("{} numbers", choice.value_dim) : "number",
          choice.normalizer.starts_with("method=log1p") ? "log1p" : "zscore",
          choice.na_strings.empty() ? ""
                                    : fmt::format(", {} texts missing", choice.na_strings.size()));
    case ColumnUse::kCategory:
    case ColumnUse::kSequence:
      break;
  }
  return category_text(choice);
}

// What is known of the label, after the number of rows.
std::string outcome_text(const LabelChoice& label) {
  if (label.task == LabelTask::kBinary)
    return fmt::format("{:.2f} % of them positive", 100 * label.share);
  if (label.task == LabelTask::kClasses)
    return fmt::format("{:.2f} % of them in the largest class", 100 * label.share);
  return fmt::format("labels of mean {:.4g} and deviation {:.4g}", label.mean, label.deviation);
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
  return text +
         fmt::format("\n{}{} rows read, {}\n", profile.rows_read, of_all, outcome_text(label));
}

}  // namespace emblem
