#include "init/number_choice.h"

#include <fmt/format.h>

#include "core/text.h"
#include "data/format/decoder.h"
#include "emblem/error.h"
#include "init/column_kind.h"
#include "init/number_summary.h"

namespace emblem {
namespace {

// `1 of 198592 values is not a number ("oops"); treated as missing`
std::string mistakes_warning(const ColumnProfile& column, const char* expected) {
  std::string texts;
  int64_t count = 0;
  for (const auto& [text, times] : column.other_texts) {
    texts += cat(texts.empty() ? "" : ", ", in_quotes(text));
    count += times;
  }
  const bool too_large = column.out_of_range == count;
  return cat(count, " of ", column.present(), " values ", count == 1 ? "is " : "are ",
             too_large ? "too large for a 32-bit float"
                       : cat("not ", count == 1 ? "a " : "", expected, count == 1 ? "" : "s"),
             " (", texts, "); treated as missing");
}

// `-999 in 2.0 % of the rows stands for a missing value`
std::string sentinels_warning(const NumberSummary& summary, double share) {
  std::string texts;
  for (const double value : summary.sentinels)
    texts += cat(texts.empty() ? "" : ", ", number_text(value));
  return fmt::format("{}, far from all other values, in {:.2g} % of the rows: treated as missing",
                     texts, 100 * share);
}

void add_warning(const std::string& warning, ColumnChoice& choice) {
  choice.warning += cat(choice.warning.empty() ? "" : "; ", warning);
}

// Texts that the loader does not take for missing numbers by itself.
void add_missing_texts(const ColumnProfile& column, ColumnChoice& choice) {
  for (const auto& [text, count] : column.absent)
    if (!text.empty() && !is_default_absent_text(text)) choice.na_strings.push_back(text);
  for (const auto& [text, count] : column.other_texts) choice.na_strings.push_back(text);
}

std::string normalizer_of(const NumberSummary& summary) {
  const std::string limit =
      summary.has_outliers ? fmt::format(",limit={:g}", NumberSummary::kLimit) : "";
  if (summary.suits_logarithm)
    return fmt::format("method=log1p,mean={:.6g},standard_deviation={:.6g}{}", summary.log_mean,
                       summary.log_deviation, limit);
  return fmt::format("method=zscore,mean={:.9g},standard_deviation={:.6g}{}", summary.mean,
                     summary.deviation, limit);
}

}  // namespace

ColumnChoice as_number(const ColumnProfile& column, ColumnChoice choice) {
  choice.use = ColumnUse::kNumber;
  NumberSample numbers = column.numbers_sample;
  int64_t count = column.numbers;
  if (const auto format = amount_format_of(column)) {
    choice.number_format = *format;
    const bool commas = *format == config::COMMA_GROUPS;
    numbers.add(commas ? column.comma_groups.numbers : column.point_groups.numbers);
    count += commas ? column.comma_groups.count : column.point_groups.count;
  }
  if (column.is_vector()) {
    choice.value_dim = column.longest_list;
    count = column.rows - column.missing;
  }
  const NumberSummary summary = summarize(numbers);
  choice.normalizer = normalizer_of(summary);
  choice.median = summary.median;
  if (column.is_text_file) {
    add_missing_texts(column, choice);
    if (!column.other_texts.empty()) add_warning(mistakes_warning(column, "number"), choice);
  }
  const auto rows = static_cast<double>(std::max<int64_t>(1, column.rows));
  const double sentinels = summary.sentinel_share * static_cast<double>(count) / rows;
  if (!summary.sentinels.empty()) {
    for (const double value : summary.sentinels) choice.na_strings.push_back(number_text(value));
    add_warning(sentinels_warning(summary, sentinels), choice);
  }
  choice.missing_share = 1 - static_cast<double>(count) / rows + sentinels;
  return choice;
}

void choose_date_numbers(const ColumnProfile& column, const DateProfile& dates,
                         ColumnChoice& choice) {
  const NumberSummary summary = summarize(dates.days);
  choice.normalizer = fmt::format("method=zscore,mean={:.9g},standard_deviation={:.6g}",
                                  summary.mean, summary.deviation);
  add_missing_texts(column, choice);
  if (!column.other_texts.empty()) add_warning(mistakes_warning(column, "date"), choice);
  choice.missing_share =
      1 - static_cast<double>(dates.count) / static_cast<double>(std::max<int64_t>(1, column.rows));
}

}  // namespace emblem
