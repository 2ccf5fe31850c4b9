#include "init/label_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "data/format/csv_field.h"
#include "data/format/decoder.h"
#include "emblem/error.h"
#include "init/lower_case.h"

namespace emblem {
namespace {

struct Value {
  std::string text;
  int64_t count = 0;
};

// As the loader reads it without label_positive; NaN for a missing label, nothing for other text.
std::optional<float> read_label(const std::string& text) {
  const ColumnRequest request{.name = "", .na_is_missing = true, .label = LabelText::kWords};
  const MissingTexts missing({});
  Column column;
  column.floats.resize(1);
  if (!CsvFieldParser(request, missing, column).add(text, 0).empty()) return {};
  return column.floats[0];
}

bool is_missing(const std::string& text) {
  const std::optional<float> value = read_label(text);
  return value && std::isnan(*value);
}

bool is_binary(const std::string& text) {
  const std::optional<float> value = read_label(text);
  return value && (*value == 0 || *value == 1);
}

// The most frequent first.
std::vector<Value> values_of(const ColumnProfile& label) {
  std::vector<Value> values;
  for (const auto& [text, count] : label.values)
    if (!is_missing(text)) values.push_back({text, count});
  std::stable_sort(values.begin(), values.end(),
                   [](const Value& a, const Value& b) { return a.count > b.count; });
  return values;
}

int64_t count_of(const std::vector<Value>& values) {
  int64_t count = 0;
  for (const Value& value : values) count += value.count;
  return count;
}

std::string list(const std::vector<Value>& values) {
  constexpr size_t kShown = 6;
  std::vector<std::string> texts;
  const auto total = static_cast<double>(count_of(values));
  for (size_t i = 0; i < std::min(values.size(), kShown); ++i) {
    texts.push_back(fmt::format("{} ({:.1f} %)", in_quotes(values[i].text),
                                100 * static_cast<double>(values[i].count) / total));
  }
  return fmt::format("{}{}", fmt::join(texts, ", "), values.size() > kShown ? ", ..." : "");
}

// Text that means 1: "yes"-like words, ">50K", "50000+.". Those of the loader are not among them.
bool looks_positive(const std::string& text) {
  static constexpr std::string_view kWords[] = {"positive", "pos",  "click",     "clicked",
                                                "success",  "spam", "malignant", "bought"};
  const std::string lower = lower_case(text);
  return std::find(std::begin(kWords), std::end(kWords), lower) != std::end(kWords) ||
         text.starts_with('>') || text.ends_with('+') || text.ends_with("+.") ||
         read_label(text) == 1.0f;
}

bool looks_negative(const std::string& text) {
  const std::string lower = lower_case(text);
  return lower.starts_with("no ") || lower.starts_with("not") || lower.starts_with("non") ||
         lower.starts_with('<') || lower.starts_with("neg") || read_label(text) == 0.0f;
}

// Which of two values is 1: the larger number, a text that says so, or the rarer one.
void choose_positive(const std::vector<Value>& values, LabelChoice& choice) {
  const std::string &frequent = values[0].text, &rare = values[1].text;
  const std::optional<float> a = read_label(frequent), b = read_label(rare);
  if (a && b && *a != *b) {
    choice.positive = *a > *b ? frequent : rare;
  } else if (looks_positive(frequent) != looks_positive(rare)) {
    choice.positive = looks_positive(frequent) ? frequent : rare;
  } else if (looks_negative(frequent) != looks_negative(rare)) {
    choice.positive = looks_negative(frequent) ? rare : frequent;
  } else {
    choice.positive = rare;
    choice.is_guess = true;
  }
}

[[noreturn]] void refuse_many(const ColumnProfile& label, const std::vector<Value>& values) {
  const bool numeric = label.numbers > 0 && label.numbers == label.present();
  const std::string column = cat("label ", in_quotes(label.name));
  if (label.distinct_count() > 20) {
    throw Error(ErrorCode::kInvalidArgument,
                cat(column, " has ", label.distinct.exact() ? "" : "about ", label.distinct_count(),
                    " values, but models learn two, 0 and 1; ",
                    numeric ? "add a column of 0 and 1 to the data (e.g. 1 above a limit)"
                            : "name another column with --label",
                    ", or give the value that is 1 with --label-positive"));
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      cat(column, " has ", values.size(), " values: ", list(values),
          "; models learn two, 0 and 1: give the value that is 1 with --label-positive (all "
          "others are 0)"));
}

void choose_from(const std::vector<Value>& values, const ColumnProfile& label,
                 LabelChoice& choice) {
  const bool all_binary = std::all_of(values.begin(), values.end(),
                                      [](const Value& value) { return is_binary(value.text); });
  if (all_binary && label.has_all_values) return;
  if (!label.has_all_values || values.size() > 2) refuse_many(label, values);
  if (values.size() == 1)
    choice.positive = values[0].text;
  else
    choose_positive(values, choice);
}

double positive_share(const std::vector<Value>& values, const std::string& positive) {
  int64_t count = 0;
  for (const Value& value : values) {
    const bool is_positive =
        positive.empty() ? read_label(value.text) == 1.0f : value.text == positive;
    if (is_positive) count += value.count;
  }
  return static_cast<double>(count) / static_cast<double>(std::max<int64_t>(1, count_of(values)));
}

void check_missing(const ColumnProfile& label, int64_t present, int64_t max_bad_rows) {
  const int64_t missing = label.rows - present;
  EMBLEM_REQUIRE(
      !label.has_all_values || missing <= max_bad_rows, "label ", in_quotes(label.name),
      " is missing in ", missing, " of ", label.rows,
      " sampled rows, which training refuses; remove those rows, or skip up to N of them "
      "with --max-bad-rows N");
}

LabelChoice choose_typed_label(const ColumnProfile& label) {
  LabelChoice choice;
  choice.share = label.moments.mean();
  EMBLEM_REQUIRE(label.min >= 0 && label.max <= 1, "label ", in_quotes(label.name), " is between ",
                 label.min, " and ", label.max, ", expected 0 or 1");
  return choice;
}

}  // namespace

LabelChoice choose_label(const ColumnProfile& label, const std::string& wanted_positive,
                         int64_t max_bad_rows) {
  LabelChoice choice;
  EMBLEM_REQUIRE(label.unusable.empty() && !label.is_list, "label ", in_quotes(label.name),
                 " cannot be used: ", label.is_list ? "it holds lists" : label.unusable);
  if (!label.is_text_file || label.is_typed) {
    EMBLEM_REQUIRE(wanted_positive.empty(), "--label-positive is for labels of text; column ",
                   in_quotes(label.name), " holds numbers");
    check_missing(label, label.present(), max_bad_rows);
    choice = choose_typed_label(label);
  } else {
    const std::vector<Value> values = values_of(label);
    EMBLEM_REQUIRE(!values.empty(), "label ", in_quotes(label.name), " has no values");
    if (wanted_positive.empty()) {
      choose_from(values, label, choice);
    } else {
      choice.positive = trim(wanted_positive);
      const bool known = label.values.contains(choice.positive);
      EMBLEM_REQUIRE(known || !label.has_all_values, "--label-positive: no row of the sample has ",
                     in_quotes(choice.positive), " in column ", in_quotes(label.name), "; it has ",
                     list(values));
    }
    check_missing(label, count_of(values), max_bad_rows);
    choice.share = positive_share(values, choice.positive);
  }
  if (choice.share == 0 || choice.share == 1)
    choice.warnings.push_back(cat("all ", label.rows, " sampled rows have the label ",
                                  choice.share == 0 ? "0" : "1",
                                  ": there is nothing to learn; check --label and the data"));
  return choice;
}

std::string missing_label_problem(const DataProfile& profile) {
  std::vector<std::string> candidates;
  for (const ColumnProfile& column : profile.columns) {
    const std::vector<Value> values = values_of(column);
    if (!column.has_all_values || values.size() != 2) continue;
    candidates.push_back(fmt::format("{} ({} or {})", in_quotes(column.name),
                                     in_quotes(values[0].text), in_quotes(values[1].text)));
  }
  const std::string what = "--label NAME is required: the column to predict";
  if (candidates.empty()) {
    std::vector<std::string> names;
    for (const ColumnProfile& column : profile.columns) names.push_back(in_quotes(column.name));
    if (names.size() > 12) names[12] = "...";
    names.resize(std::min<size_t>(names.size(), 13));
    return fmt::format("{}; no column has two values; the columns are {}", what,
                       fmt::join(names, ", "));
  }
  const bool more = candidates.size() > 8;
  if (more) candidates.resize(8);
  return fmt::format("{}; columns with two values: {}{}", what, fmt::join(candidates, ", "),
                     more ? ", ..." : "");
}

}  // namespace emblem
