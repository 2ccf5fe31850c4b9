#include "init/column_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "data/format/decoder.h"
#include "data/format/text/date_text.h"
#include "emblem/error.h"
#include "init/column_kind.h"
#include "init/column_profile.h"
#include "init/number_summary.h"

namespace emblem {
namespace {

std::vector<std::string> names_of(const DataProfile& profile) {
  std::vector<std::string> names;
  for (const ColumnProfile& column : profile.columns) names.push_back(column.name);
  return names;
}

std::string no_such_column(const DataProfile& profile, const std::string& name) {
  const std::vector<std::string> names = names_of(profile);
  const std::string problem = cat(profile.source.input, " has no column ", in_quotes(name));
  const bool is_number =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (is_number && profile.source.with_header)
    return cat(problem,
               "; numbers are for files without a header, but its first line is read as one: give "
               "the name, one of ",
               column_list(profile), " (or --no-header if that line is a row)");
  if (const auto near = nearest_name(name, names))
    return cat(problem, "; did you mean ", in_quotes(*near), "?");
  const bool is_numbered = names[0] == "column1" && !profile.source.with_header;
  if (is_numbered)
    return cat(problem, "; it has no header, and its columns are called column1 to ", names.back(),
               " (--header if its first line has the names; --names gives other names)");
  return cat(problem, "; its columns are ", column_list(profile));
}

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
std::string sentinels_warning(const std::vector<std::string>& values, double share) {
  const std::string texts = joined(values);
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

// The choice for a column of numbers, amounts or vectors.
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
  const NumberSummary summary = summarize(numbers, has_only_nines);
  choice.normalizer = normalizer_of(summary);
  choice.median = summary.median;
  choice.quantiles = summary.quantiles;
  if (column.is_text_file) {
    add_missing_texts(column, choice);
    if (!column.other_texts.empty()) add_warning(mistakes_warning(column, "number"), choice);
  }
  const auto rows = static_cast<double>(std::max<int64_t>(1, column.rows));
  const double sentinels = summary.sentinel_share * static_cast<double>(count) / rows;
  if (!summary.sentinels.empty()) {
    std::vector<std::string> texts;
    for (const double value : summary.sentinels) texts.push_back(number_text(value));
    choice.na_strings.insert(choice.na_strings.end(), texts.begin(), texts.end());
    add_warning(sentinels_warning(texts, sentinels), choice);
  }
  choice.missing_share = 1 - static_cast<double>(count) / rows + sentinels;
  return choice;
}

// The texts of a column that are one of these days, by the counts of texts that are known.
std::vector<std::string> texts_of_days(const ColumnProfile& column, const std::set<double>& days,
                                       DateOrder order) {
  std::vector<std::string> texts;
  for (const auto& [text, count] : column.words.counts()) {
    const std::optional<DateTime> date = parse_date(text, order);
    if (date && days.contains(static_cast<double>(date_number(*date, config::DAYS))))
      texts.emplace_back(trim(text));
  }
  return texts;
}

// Fills normalizer, na_strings, missing_share and warning of a kDate.
void choose_date_numbers(const ColumnProfile& column, const DateProfile& dates,
                         ColumnChoice& choice) {
  const NumberSummary summary = summarize(dates.days, is_placeholder_day);
  choice.normalizer = fmt::format("method=zscore,mean={:.9g},standard_deviation={:.6g}{}",
                                  summary.mean, summary.deviation,
                                  summary.has_outliers || !summary.sentinels.empty()
                                      ? fmt::format(",limit={:g}", NumberSummary::kLimit)
                                      : "");
  add_missing_texts(column, choice);
  const std::vector<std::string> placeholders =
      texts_of_days(column, {summary.sentinels.begin(), summary.sentinels.end()},
                    choice.day_first ? DateOrder::kDayFirst : DateOrder::kMonthFirst);
  if (!placeholders.empty()) {
    for (const std::string& text : placeholders) choice.na_strings.push_back(text);
    add_warning(sentinels_warning(placeholders, summary.sentinel_share), choice);
  }
  if (!column.other_texts.empty()) add_warning(mistakes_warning(column, "date"), choice);
  const auto rows = static_cast<double>(std::max<int64_t>(1, column.rows));
  const double read = placeholders.empty() ? 1 : 1 - summary.sentinel_share;
  choice.missing_share = 1 - read * static_cast<double>(dates.count) / rows;
}

// Whole numbers with few different values, each often enough to learn it apart from its order, are
// categories.
bool has_few_values(const ColumnProfile& column) {
  const int64_t distinct = column.distinct_count();
  const int64_t rows_of_each = column.present() / std::max<int64_t>(1, distinct);
  return (distinct <= 10 && rows_of_each >= 10) || (distinct <= 32 && rows_of_each >= 200);
}

// Longer lists of words would be hard to read; they get a dynamic table.
constexpr size_t kMostWords = 300;

// All words of the sample, a row each. Of a column of which rows were not read, only few: more of
// them would be unknown.
std::vector<std::string> vocabulary_of(const DataProfile& profile, const WordCounts& words) {
  const size_t most = profile.all_read ? kMostWords : kMostWords / 3;
  if (!words.is_complete() || words.counts().size() > most) return {};
  return words.by_frequency();
}

ColumnChoice as_category(const DataProfile& profile, const ColumnProfile& column,
                         ColumnChoice choice) {
  choice.use = ColumnUse::kCategory;
  if (is_numeric(column) && !is_all_numbers(column)) choice.found = "text";
  if (has_large_numbers(column))
    choice.warning = cat(column.out_of_range, " of ", column.present(),
                         column.out_of_range == 1 ? " values is" : " values are",
                         " too large for a 32-bit float (", in_quotes(column.range_example),
                         "): a category; scale them to use the column as a number");
  auto distinct = static_cast<double>(column.distinct_count());
  const bool is_text = column.is_text_file && !is_numeric(column);
  const ListProfile* const list = is_text ? list_of(column) : nullptr;
  if (list != nullptr) {
    choice.separator = std::string(1, list->separator);
    choice.longest = list->longest;
    distinct = list->distinct.estimate();
    choice.vocabulary = vocabulary_of(profile, list->words);
  } else if (column.is_list || column.is_text_file) {
    choice.longest = column.longest_list;
    choice.vocabulary = vocabulary_of(profile, column.words);
  }
  // Columns of many values have more in the rows that were not read.
  const double unread =
      profile.total_rows / static_cast<double>(std::max<int64_t>(1, profile.rows_read));
  if (distinct > 1000) distinct *= std::clamp(unread, 1.0, 10.0);
  choice.distinct = static_cast<int64_t>(distinct);
  return choice;
}

ColumnChoice as_date(const ColumnProfile& column, ColumnChoice choice) {
  const DateProfile& dates = *dates_of(column);
  choice.use = ColumnUse::kDate;
  choice.day_first = &dates == &column.day_first;
  const double days = dates.distinct_days.estimate();
  if (days > 1) choice.parts.push_back(config::DAYS);
  if (dates.hours.size() > 2) choice.parts.push_back(config::HOUR);
  if (days >= 14) choice.parts.push_back(config::WEEKDAY);
  if (dates.last - dates.first >= 300 && days >= 24) choice.parts.push_back(config::MONTH);
  choose_date_numbers(column, dates, choice);
  return choice;
}

ColumnChoice skip(ColumnChoice choice, const std::string& why) {
  choice.use = ColumnUse::kSkipped;
  choice.why = why;
  return choice;
}

// The reason not to learn from a column; "" for most.
std::string reason_to_skip(const ColumnProfile& column) {
  const int64_t distinct = column.distinct_count();
  if (!column.unusable.empty()) return column.unusable;
  if (column.present() == 0) return "no values";
  if (column.is_vector() && column.shortest_list != column.longest_list)
    return fmt::format("lists of {} to {} numbers", column.shortest_list, column.longest_list);
  const bool constant = distinct == 1 && column.missing_share() == 0;
  if (constant) return "constant";
  if (!column.is_text_file) return "";
  if (is_integer(column) && column.present() >= 50 && column.ascends && has_one_row_each(column))
    return "row number";
  if (has_one_row_each(column) && has_large_numbers(column)) return "too large for a 32-bit float";
  if (const DateProfile* dates = dates_of(column))
    return dates->distinct_days.estimate() < 2 && dates->hours.size() < 3 ? "one date" : "";
  const bool text = !is_numeric(column) && !amount_format_of(column);
  if (has_one_row_each(column) && (text || (is_integer(column) && has_no_order(column))) &&
      list_of(column) == nullptr)
    return "one value per row";
  return "";
}

ColumnChoice choose_wished(const DataProfile& profile, const ColumnProfile& column,
                           const ColumnWishes& wishes, const ColumnChoice& choice) {
  EMBLEM_REQUIRE(column.unusable.empty(), "--categories, --numbers: column ",
                 in_quotes(column.name), " cannot be used: ", column.unusable);
  if (contains(wishes.categories, column.name)) return as_category(profile, column, choice);
  EMBLEM_REQUIRE(is_numeric(column) || amount_format_of(column) || column.is_vector(),
                 "--numbers: column ", in_quotes(column.name),
                 " is not numeric: ", column.present() - column.numbers, " of ", column.rows,
                 " sampled rows hold other text");
  return as_number(column, choice);
}

ColumnChoice choose_column(const DataProfile& profile, const ColumnProfile& column,
                           const ColumnWishes& wishes) {
  ColumnChoice choice;
  choice.found = shape_of(column);
  choice.distinct = column.distinct_count();
  if (contains(wishes.skipped, column.name)) return skip(choice, "--skip");
  const bool has_braces = column.name.find_first_of("{}") != std::string::npos;
  if (has_braces) return skip(choice, "braces in the name; rename it");
  if (wishes.names(column.name)) return choose_wished(profile, column, wishes, choice);
  if (const std::string why = reason_to_skip(column); !why.empty()) return skip(choice, why);
  if (column.is_list)
    return column.is_vector() ? as_number(column, choice) : as_category(profile, column, choice);
  if (!column.is_text_file)
    return column.integers > 0 ? as_category(profile, column, choice) : as_number(column, choice);
  if (dates_of(column) != nullptr) return as_date(column, choice);
  if (amount_format_of(column)) return as_number(column, choice);
  if (!is_numeric(column)) return as_category(profile, column, choice);
  const bool few = is_integer(column) && has_few_values(column);
  const bool keys = has_wide_integers(column) ||
                    (is_integer(column) && (has_no_order(column) || holds_large_keys(column)));
  return few || keys ? as_category(profile, column, choice) : as_number(column, choice);
}

// A column that tells the label is either a copy of it or too good to be true.
void mark_copies_of_label(const DataProfile& profile, const ColumnWishes& wishes,
                          std::vector<ColumnChoice>& choices) {
  const ColumnProfile* label = profile.find(wishes.label);
  for (size_t i = 0; i < choices.size(); ++i) {
    const ColumnProfile& column = profile.columns[i];
    const bool used =
        choices[i].use == ColumnUse::kCategory || choices[i].use == ColumnUse::kNumber;
    if (!used || !contains(profile.tell_label, column.name)) continue;
    if (column.values.size() <= label->values.size() && !wishes.names(column.name)) {
      choices[i] = skip(choices[i], "equals the label");
      choices[i].warning = "equals the label: skipped (--categories keeps it)";
    } else {
      choices[i].warning =
          "determines the label in the sample: is it known when predictions are made? "
          "If not, skip it (--skip)";
    }
  }
}

// In categories, texts like "NA" are values.
void count_as_training_does(const DataProfile& profile, std::vector<ColumnChoice>& choices) {
  for (size_t i = 0; i < choices.size(); ++i) {
    const ColumnProfile& column = profile.columns[i];
    ColumnChoice& choice = choices[i];
    if (choice.use == ColumnUse::kNumber || choice.use == ColumnUse::kDate) continue;
    auto missing = static_cast<double>(column.rows - column.present());
    if (choice.use == ColumnUse::kCategory && column.is_text_file) {
      for (const auto& [text, count] : column.absent) {
        missing -= static_cast<double>(count);
        ++choice.absent_values;
      }
    }
    choice.distinct += choice.absent_values;
    if (column.rows > 0) choice.missing_share = missing / static_cast<double>(column.rows);
  }
}

// The values of a list of categories.
const DistinctCount& values_of_list(const ColumnProfile& column) {
  const ListProfile* list = column.is_list ? nullptr : list_of(column);
  return list == nullptr ? column.distinct : list->distinct;
}

bool holds_lists(const ColumnProfile& column, const ColumnChoice& choice) {
  return choice.use == ColumnUse::kCategory && (column.is_list || !choice.separator.empty());
}

// Both read one table: with the words of both, or dynamic.
void share_words(ColumnChoice& list, ColumnChoice& target) {
  if (list.vocabulary.empty() || target.vocabulary.empty()) {
    list.vocabulary.clear();
    target.vocabulary.clear();
  } else {
    for (const std::string& word : list.vocabulary)
      if (!contains(target.vocabulary, word)) target.vocabulary.push_back(word);
    list.vocabulary = target.vocabulary;
  }
  list.distinct = target.distinct = std::max(list.distinct, target.distinct);
}

// A list of values that another column has one of is a history of what that column names: its
// elements are weighed by how they fit the value of the row.
void find_sequences(const DataProfile& profile, std::vector<ColumnChoice>& choices) {
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!holds_lists(profile.columns[i], choices[i]) || choices[i].longest < 2) continue;
    const DistinctCount& values = values_of_list(profile.columns[i]);
    double best = 0.5;
    for (size_t j = 0; j < choices.size(); ++j) {
      const bool is_single =
          choices[j].use == ColumnUse::kCategory && !holds_lists(profile.columns[j], choices[j]);
      if (!is_single || profile.columns[j].distinct_count() < 5) continue;
      const double share = values.share_in(profile.columns[j].distinct);
      if (share < best) continue;
      best = share;
      choices[i].target = profile.columns[j].name;
    }
    if (choices[i].target.empty()) continue;
    choices[i].use = ColumnUse::kSequence;
    for (size_t j = 0; j < choices.size(); ++j)
      if (profile.columns[j].name == choices[i].target) share_words(choices[i], choices[j]);
  }
}

}  // namespace

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool ColumnWishes::names(const std::string& column) const {
  return contains(categories, column) || contains(numbers, column);
}

std::string column_list(const DataProfile& profile) {
  std::string text;
  for (const std::string& name : names_of(profile)) {
    if (text.size() > 300) return text + ", ...";
    text += cat(text.empty() ? "" : ", ", in_quotes(name));
  }
  return text;
}

void check_wishes(const DataProfile& profile, const ColumnWishes& wishes) {
  const std::vector<std::string> names = names_of(profile);
  std::set<std::string> seen;
  const auto check = [&](const char* option, const std::string& name) {
    if (name.empty()) return;
    if (!contains(names, name))
      throw Error(ErrorCode::kInvalidArgument, cat(option, ": ", no_such_column(profile, name)));
    EMBLEM_REQUIRE(seen.insert(name).second, option, ": column ", in_quotes(name),
                   " is named by another option, or twice; name it once");
  };
  check("--label", wishes.label);
  check("--weight", wishes.weight);
  for (const std::string& name : wishes.categories) check("--categories", name);
  for (const std::string& name : wishes.numbers) check("--numbers", name);
  for (const std::string& name : wishes.skipped) check("--skip", name);
}

std::vector<ColumnChoice> choose_columns(const DataProfile& profile, const ColumnWishes& wishes) {
  check_wishes(profile, wishes);
  std::vector<ColumnChoice> choices;
  for (const ColumnProfile& column : profile.columns) {
    if (column.name == wishes.label || column.name == wishes.weight) {
      ColumnChoice choice;
      choice.use = column.name == wishes.label ? ColumnUse::kLabel : ColumnUse::kWeight;
      choice.found = shape_of(column);
      choice.distinct = column.distinct_count();
      choices.push_back(choice);
    } else {
      choices.push_back(choose_column(profile, column, wishes));
    }
  }
  mark_copies_of_label(profile, wishes, choices);
  count_as_training_does(profile, choices);
  find_sequences(profile, choices);
  return choices;
}

}  // namespace emblem
