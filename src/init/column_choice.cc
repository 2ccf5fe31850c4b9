#include "init/column_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "core/text.h"
#include "data/format/csv_field.h"
#include "data/format/decoder.h"
#include "emblem/error.h"
#include "init/lower_case.h"

namespace emblem {
namespace {

// Whole numbers with at most this many different values, each ten times on average, are categories.
constexpr int64_t kFewValues = 32;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// All values are numbers, apart from texts that stand for missing ones.
bool is_all_numbers(const ColumnProfile& column) {
  return column.present() > 0 && column.numbers >= column.present();
}

// The same, apart from a few mistakes.
bool is_numeric(const ColumnProfile& column) {
  return column.present() > 0 && column.numbers * 100 >= column.present() * 99 &&
         column.other_texts.size() < kOtherTextsListed;
}

// Numbers, of which some are too large for a float.
bool has_large_numbers(const ColumnProfile& column) {
  return column.out_of_range > 0 && column.numbers + column.out_of_range >= column.present();
}

bool is_integer(const ColumnProfile& column) {
  return is_numeric(column) && column.integers == column.numbers;
}

// "id", "user_id", "userId", "UserID", "zip code": numbers under such a name have no order.
bool is_named_as_id(const std::string& name) {
  const std::string lower = lower_case(name);
  for (const std::string_view word : {"id", "uuid", "guid", "zip", "zipcode", "index", "code"}) {
    if (lower == word) return true;
    if (!lower.ends_with(word) || word == "index") continue;
    const char before = lower[lower.size() - word.size() - 1];
    const char first = name[name.size() - word.size()];
    if (before == '_' || before == '-' || before == ' ' || before == '.' ||
        std::isupper(static_cast<unsigned char>(first)) != 0)
      return true;
  }
  return false;
}

// Whole numbers that only tell things apart: ids and postcodes ("05064").
bool has_no_order(const ColumnProfile& column) {
  return is_named_as_id(column.name) || column.leading_zeros > 0;
}

bool has_one_row_each(const ColumnProfile& column) {
  return column.present() >= 50 &&
         static_cast<double>(column.distinct_count()) > 0.9 * static_cast<double>(column.present());
}

// Hashes and the like: no count or amount is that large. Times in ms, us and ns are.
bool holds_large_keys(const ColumnProfile& column) {
  return is_integer(column) && column.max > 0x1p31 && !(column.min > 1e12 && column.max < 3e18);
}

bool is_date_column(const ColumnProfile& column) {
  return column.present() > 0 && column.dates * 10 >= column.present() * 9;
}

// The separator of a column of lists; '\0' when its fields are single values.
char separator_of(const ColumnProfile& column) {
  const double fields = static_cast<double>(column.present());
  const double whole = static_cast<double>(column.distinct_count());
  for (const ListProfile& list : column.lists) {
    // Spaces and commas are common within single values, so that these have to show more.
    const bool is_strong = list.separator == '|' || list.separator == ';';
    const double parts = static_cast<double>(list.distinct.estimate());
    if (static_cast<double>(list.fields) < (is_strong ? 0.1 : 0.3) * fields) continue;
    if (parts < whole * (is_strong ? 1.0 : 0.5) && (is_strong || whole > 20)) return list.separator;
  }
  return '\0';
}

std::string shape_of(const ColumnProfile& column) {
  if (!column.unusable.empty()) return column.is_list ? "list" : "binary";
  if (column.present() == 0) return "empty";
  if (column.is_list) return column.is_vector() ? "vector" : "list";
  if (!column.is_text_file) return column.integers > 0 ? "key" : "number";
  if (is_integer(column)) return "integer";
  if (is_numeric(column)) return "number";
  return is_date_column(column) ? "date" : separator_of(column) != '\0' ? "list" : "text";
}

// Whether the values keep differences after log1p that a network can use.
bool suits_logarithm(const ColumnProfile& column) {
  const bool skewed =
      column.moments.skewness() > 2 || column.moments.deviation() > 2 * column.moments.mean();
  return column.min >= 0 && column.max >= 20 && skewed &&
         column.log_moments.deviation() > 0.25 * column.log_moments.mean();
}

// `1 of 198592 values is not a number ("oops"); treated as missing`
std::string mistakes_warning(const ColumnProfile& column) {
  std::string texts;
  int64_t count = 0;
  for (const auto& [text, times] : column.other_texts) {
    texts += cat(texts.empty() ? "" : ", ", in_quotes(text));
    count += times;
  }
  const bool too_large = column.out_of_range == count;
  return cat(
      count, " of ", column.present(), " values ", count == 1 ? "is " : "are ",
      too_large ? "too large for a 32-bit float" : (count == 1 ? "not a number" : "not numbers"),
      " (", texts, "); treated as missing");
}

ColumnChoice as_number(const ColumnProfile& column, ColumnChoice choice) {
  choice.use = ColumnUse::kNumber;
  if (!is_all_numbers(column)) choice.warning = mistakes_warning(column);
  if (column.is_vector()) choice.value_dim = column.longest_list;
  if (suits_logarithm(column)) {
    choice.normalizer = "method=log1p";
    if (column.numbers < column.rows || (column.is_list && column.missing > 0))
      choice.default_value = fmt::format("{:.4g}", column.log_moments.mean());
  } else {
    const double deviation = column.moments.deviation();
    choice.normalizer = fmt::format("method=zscore,mean={:.6g},standard_deviation={:.6g}",
                                    column.moments.mean(), deviation > 0 ? deviation : 1.0);
  }
  return choice;
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
  double distinct = static_cast<double>(column.distinct_count());
  if (column.is_text_file && !is_numeric(column)) {
    if (const char separator = separator_of(column)) {
      choice.separator = std::string(1, separator);
      for (const ListProfile& list : column.lists)
        if (list.separator == separator) distinct = list.distinct.estimate();
    }
  }
  // Columns of many values have more in the rows that were not read.
  const double unread =
      profile.total_rows / static_cast<double>(std::max<int64_t>(1, profile.rows_read));
  if (distinct > 1000) distinct *= std::clamp(unread, 1.0, 10.0);
  choice.distinct = static_cast<int64_t>(distinct);
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
  const bool text = !is_numeric(column);
  if (text && column.decimal_commas * 10 >= column.present() * 9)
    return "decimal commas; write 3.14";
  if (has_one_row_each(column) && has_large_numbers(column)) return "too large for a 32-bit float";
  if (is_date_column(column)) return "date; derive weekday or age";
  if (has_one_row_each(column) && (text || (is_integer(column) && has_no_order(column))) &&
      separator_of(column) == '\0')
    return "one value per row";
  return "";
}

ColumnChoice choose_column(const DataProfile& profile, const ColumnProfile& column,
                           const ColumnWishes& wishes) {
  ColumnChoice choice;
  choice.found = shape_of(column);
  choice.distinct = column.distinct_count();
  if (contains(wishes.skipped, column.name)) return skip(choice, "--skip");
  const bool has_braces = column.name.find_first_of("{}") != std::string::npos;
  if (has_braces) return skip(choice, "braces in the name; rename it");
  const bool is_wished =
      contains(wishes.categories, column.name) || contains(wishes.numbers, column.name);
  EMBLEM_REQUIRE(!is_wished || column.unusable.empty(), "--categories, --numbers: column ",
                 in_quotes(column.name), " cannot be used: ", column.unusable);
  if (contains(wishes.categories, column.name)) return as_category(profile, column, choice);
  if (contains(wishes.numbers, column.name)) {
    EMBLEM_REQUIRE(is_numeric(column), "--numbers: column ", in_quotes(column.name),
                   " is not numeric: ", column.present() - column.numbers, " of ", column.rows,
                   " sampled rows hold other text");
    return as_number(column, choice);
  }
  if (const std::string why = reason_to_skip(column); !why.empty()) return skip(choice, why);
  if (column.is_list)
    return column.is_vector() ? as_number(column, choice) : as_category(profile, column, choice);
  if (!column.is_text_file)
    return column.integers > 0 ? as_category(profile, column, choice) : as_number(column, choice);
  if (!is_numeric(column)) return as_category(profile, column, choice);
  const bool few = is_integer(column) && choice.distinct <= kFewValues &&
                   column.present() >= 10 * choice.distinct;
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
    const bool forced =
        contains(wishes.categories, column.name) || contains(wishes.numbers, column.name);
    if (column.values.size() <= label->values.size() && !forced) {
      choices[i] = skip(choices[i], "equals the label");
      choices[i].warning = "equals the label: skipped (--categories keeps it)";
    } else {
      choices[i].warning =
          "determines the label in the sample: is it known when predictions are made? "
          "If not, skip it (--skip)";
    }
  }
}

// In categories, texts like "NA" are values unless na_strings lists them.
void count_as_training_does(const DataProfile& profile, std::vector<ColumnChoice>& choices) {
  const std::vector<std::string> na_strings = na_strings_for(profile, choices);
  for (size_t i = 0; i < choices.size(); ++i) {
    const ColumnProfile& column = profile.columns[i];
    ColumnChoice& choice = choices[i];
    auto missing = static_cast<double>(column.rows - column.present());
    if (choice.use == ColumnUse::kCategory && column.is_text_file) {
      for (const auto& [text, count] : column.absent) {
        if (contains(na_strings, text)) continue;
        missing -= static_cast<double>(count);
        ++choice.absent_values;
      }
      for (const std::string& text : na_strings) {
        const auto found = column.values.find(text);
        if (found != column.values.end() && !column.absent.contains(text))
          missing += static_cast<double>(found->second);
      }
    }
    if (choice.use == ColumnUse::kNumber && column.is_text_file)
      missing = static_cast<double>(column.rows - column.numbers);
    choice.distinct += choice.absent_values;
    if (column.rows > 0) choice.missing_share = missing / static_cast<double>(column.rows);
  }
}

std::vector<std::string> names_of(const DataProfile& profile) {
  std::vector<std::string> names;
  for (const ColumnProfile& column : profile.columns) names.push_back(column.name);
  return names;
}

// Quoted, about a line of them.
std::string name_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (text.size() > 100) return text + ", ...";
    text += cat(text.empty() ? "" : ", ", in_quotes(name));
  }
  return text;
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
               name_list(names), " (or --no-header if that line is a row)");
  if (const auto near = nearest_name(name, names))
    return cat(problem, "; did you mean ", in_quotes(*near), "?");
  const bool is_numbered = names[0] == "column1" && !profile.source.with_header;
  return is_numbered ? cat(problem, "; it has no header, and its columns are called column1 to ",
                           names.back(),
                           " (--header if its first line has the names; --names gives other names)")
                     : problem;
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
  return choices;
}

std::vector<std::string> na_strings_for(const DataProfile& profile,
                                        const std::vector<ColumnChoice>& choices) {
  std::set<std::string> unknown;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].use != ColumnUse::kNumber && choices[i].use != ColumnUse::kWeight) continue;
    for (const auto& [text, count] : profile.columns[i].absent)
      if (!text.empty() && !is_default_absent_text(text)) unknown.insert(text);
    if (choices[i].use == ColumnUse::kNumber)
      for (const auto& [text, count] : profile.columns[i].other_texts) unknown.insert(text);
  }
  std::vector<std::string> texts;
  if (unknown.empty()) return texts;
  for (const std::string_view text : MissingTexts::defaults()) texts.emplace_back(text);
  texts.insert(texts.end(), unknown.begin(), unknown.end());
  return texts;
}

}  // namespace emblem
