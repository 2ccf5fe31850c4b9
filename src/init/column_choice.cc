#include "init/column_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "data/format/decoder.h"
#include "emblem/error.h"
#include "init/column_kind.h"
#include "init/number_choice.h"

namespace emblem {
namespace {

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
  const bool keys = is_integer(column) && (has_no_order(column) || holds_large_keys(column));
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
