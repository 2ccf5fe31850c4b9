#include "init/label_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/text/joined.h"
#include "core/text/text.h"
#include "data/format/decoder.h"
#include "data/format/text/csv_field.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"
#include "init/column_kind.h"
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

// The most frequent first. 1 and 1.0 are one value.
std::vector<Value> values_of(const ColumnProfile& label) {
  std::vector<Value> values;
  std::map<double, size_t> numbers;
  for (const auto& [text, count] : label.values) {
    if (is_missing(text)) continue;
    double number = 0;
    if (parse_double(text, number) && !std::isnan(number)) {
      const auto [place, is_new] = numbers.emplace(number, values.size());
      if (!is_new) {
        values[place->second].count += count;
        continue;
      }
    }
    values.push_back({text, count});
  }
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
  return cat(joined(texts), values.size() > kShown ? ", ..." : "");
}

// Text that means 1: "yes"-like words, ">50K", "50000+.". Those of the loader are not among them.
bool looks_positive(const std::string& text) {
  static constexpr std::string_view kWords[] = {
      "positive", "pos", "click", "clicked", "success", "spam", "malignant", "bought",
      "ja",       "oui", "si",    "sí",      "sim",     "tak",  "evet"};
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

// Numbers in the order of their values, else the most frequent first.
std::vector<std::string> ordered(const std::vector<Value>& values) {
  std::vector<std::string> texts;
  for (const Value& value : values) texts.push_back(value.text);
  const bool are_numbers = std::all_of(texts.begin(), texts.end(), [](const std::string& text) {
    float number = 0;
    return parse_float(text, number);
  });
  if (!are_numbers) return texts;
  std::stable_sort(texts.begin(), texts.end(), [](const std::string& a, const std::string& b) {
    float x = 0, y = 0;
    parse_float(a, x);
    parse_float(b, y);
    return x < y;
  });
  return texts;
}

bool is_number_label(const ColumnProfile& label) {
  return label.numbers > 0 && label.numbers == label.present();
}

// Few whole numbers are classes, many numbers are not.
LabelTask task_of(const ColumnProfile& label, const std::vector<Value>& values) {
  constexpr size_t kMostNumberedClasses = 10;
  if (label.has_all_values && values.size() <= 2) return LabelTask::kBinary;
  const bool all_binary = std::all_of(values.begin(), values.end(),
                                      [](const Value& value) { return is_binary(value.text); });
  if (all_binary && label.has_all_values) return LabelTask::kBinary;
  if (!is_number_label(label)) return LabelTask::kClasses;
  const bool few = label.has_all_values && values.size() <= kMostNumberedClasses;
  return few && label.integers == label.numbers ? LabelTask::kClasses : LabelTask::kNumber;
}

LabelTask task_from(const std::string& name) {
  if (name == "binary") return LabelTask::kBinary;
  return name == "classes" ? LabelTask::kClasses : LabelTask::kNumber;
}

double positive_share(const std::vector<Value>& values, const LabelChoice& choice) {
  const std::string& positive = choice.classes.empty() ? choice.positive : choice.classes[1];
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
      missing <= max_bad_rows, "label ", in_quotes(label.name), " is missing in ", missing, " of ",
      label.rows,
      " sampled rows, which training refuses; remove those rows, or skip up to N of them "
      "with --max-bad-rows N");
}

void choose_binary(const ColumnProfile& label, const std::vector<Value>& values,
                   const std::string& wanted, LabelChoice& choice) {
  if (!wanted.empty()) {
    choice.positive = trim(wanted);
    const bool known = label.values.contains(choice.positive);
    EMBLEM_REQUIRE(known || !label.has_all_values, "--label-positive: no row of the sample has ",
                   in_quotes(choice.positive), " in column ", in_quotes(label.name), "; it has ",
                   list(values));
  } else {
    const bool all_binary = std::all_of(values.begin(), values.end(),
                                        [](const Value& value) { return is_binary(value.text); });
    EMBLEM_REQUIRE(all_binary || (label.has_all_values && values.size() <= 2), "label ",
                   in_quotes(label.name), " has ", label.has_all_values ? "" : "more than ",
                   values.size(), " values: ", list(values),
                   "; give the value that is 1 with --label-positive, or another --task");
    if (!all_binary && values.size() == 2)
      choose_positive(values, choice);
    else if (!all_binary)
      choice.positive = values[0].text;
  }
  choice.share = positive_share(values, choice);
  if (label.is_typed && !choice.positive.empty() && wanted.empty()) {
    // Numbers of files with types are compared with the values, not with a text.
    EMBLEM_REQUIRE(values.size() == 2, "label ", in_quotes(label.name),
                   " has one value only in all sampled rows: ", in_quotes(values[0].text));
    const bool first = values[0].text == choice.positive;
    choice.classes = {values[first ? 1 : 0].text, values[first ? 0 : 1].text};
    choice.positive.clear();
  }
  if (choice.share == 0 || choice.share == 1)
    choice.warnings.push_back(cat("all ", label.rows, " sampled rows have the label ",
                                  choice.share == 0 ? "0" : "1", "; check --label and the data"));
}

// What the texts of a label are that has too many of them for classes, with what to do.
std::string advice_on_texts(const ColumnProfile& label, const std::vector<Value>& values) {
  const std::string example = in_quotes(values[0].text);
  if (dates_of(label) != nullptr)
    return cat("dates like ", example, "; labels are numbers or classes: name another column");
  if (amount_format_of(label))
    return cat("amounts like ", example,
               "; labels are plain numbers like 1234.5: write them so, without signs and groups");
  if (label.numbers * 2 < label.present())
    return "text; name another column with --label, or the value that is 1 with --label-positive";
  const auto other = label.other_texts.begin();
  return cat("numbers in ", label.numbers, " of ", label.rows, " sampled rows and text in others",
             other == label.other_texts.end() ? "" : cat(", as ", in_quotes(other->first)),
             "; remove those rows");
}

// A row of totals, or a header in the middle of a file, is no class.
void warn_of_rare_classes(const ColumnProfile& label, const std::vector<Value>& values,
                          LabelChoice& choice) {
  constexpr int64_t kFewRows = 5;
  std::vector<std::string> rare;
  for (const Value& value : values)
    if (value.count < kFewRows) rare.push_back(in_quotes(value.text));
  if (rare.empty()) return;
  const size_t count = rare.size();
  if (count > 3) rare.resize(3);
  choice.warnings.push_back(
      fmt::format("label {}: {} of {} classes {} fewer than {} rows ({}{}); remove these rows if "
                  "they are mistakes",
                  in_quotes(label.name), count, values.size(), count == 1 ? "has" : "have",
                  kFewRows, joined(rare), count > 3 ? ", ..." : ""));
}

void choose_classes(const ColumnProfile& label, const std::vector<Value>& values,
                    LabelChoice& choice) {
  constexpr int64_t kRowsOfAClass = 2;
  EMBLEM_REQUIRE(label.has_all_values &&
                     count_of(values) >= kRowsOfAClass * static_cast<int64_t>(values.size()),
                 "label ", in_quotes(label.name), " has ", label.distinct.exact() ? "" : "about ",
                 label.distinct_count(), " values, too many for classes (up to ", kValuesListed,
                 "): ", advice_on_texts(label, values));
  EMBLEM_REQUIRE(values.size() > 1, "label ", in_quotes(label.name),
                 " has one value only in all sampled rows: ", in_quotes(values[0].text));
  choice.classes = ordered(values);
  warn_of_rare_classes(label, values, choice);
  choice.share = static_cast<double>(values[0].count) /
                 static_cast<double>(std::max<int64_t>(1, count_of(values)));
}

void choose_number(const ColumnProfile& label, LabelChoice& choice) {
  EMBLEM_REQUIRE(is_number_label(label), "--task number: label ", in_quotes(label.name),
                 " is not numeric: ", label.present() - label.numbers, " of ", label.rows,
                 " sampled rows hold other text");
  choice.mean = label.moments.mean();
  choice.deviation = label.moments.deviation() > 0 ? label.moments.deviation() : 1;
  if (label.min == label.max)
    choice.warnings.push_back(cat("all ", label.rows, " sampled rows have the label ", label.min,
                                  "; check --label and the data"));
}

// For formats with a label of their own: a number of each row.
LabelChoice choose_stored_label(const ColumnProfile& label, const LabelWishes& wishes) {
  LabelChoice choice;
  EMBLEM_REQUIRE(wishes.positive.empty(), "--label-positive is for labels of text; column ",
                 in_quotes(label.name), " holds numbers");
  check_missing(label, label.present(), wishes.max_bad_rows);
  const bool is_binary = label.min >= 0 && label.max <= 1;
  if (wishes.task == "number" || (wishes.task.empty() && !is_binary)) {
    choice.task = LabelTask::kNumber;
    choose_number(label, choice);
    return choice;
  }
  EMBLEM_REQUIRE(is_binary && wishes.task != "classes", "label ", in_quotes(label.name),
                 " is between ", label.min, " and ", label.max, ", expected 0 or 1");
  choice.share = label.moments.mean();
  return choice;
}

}  // namespace

LabelChoice choose_label(const ColumnProfile& label, const LabelWishes& wishes) {
  EMBLEM_REQUIRE(label.unusable.empty() && !label.is_list, "label ", in_quotes(label.name),
                 " cannot be used: ", label.is_list ? "it holds lists" : label.unusable);
  if (!label.is_text_file) return choose_stored_label(label, wishes);
  LabelChoice choice;
  const std::vector<Value> values = values_of(label);
  EMBLEM_REQUIRE(!values.empty(), "label ", in_quotes(label.name), " has no values");
  EMBLEM_REQUIRE(wishes.positive.empty() || wishes.task.empty() || wishes.task == "binary",
                 "--label-positive is for --task binary, not for ", wishes.task);
  choice.task = !wishes.task.empty()       ? task_from(wishes.task)
                : !wishes.positive.empty() ? LabelTask::kBinary
                                           : task_of(label, values);
  if (choice.task == LabelTask::kBinary)
    choose_binary(label, values, wishes.positive, choice);
  else if (choice.task == LabelTask::kClasses)
    choose_classes(label, values, choice);
  else
    choose_number(label, choice);
  check_missing(label, label.has_all_values ? count_of(values) : label.present(),
                wishes.max_bad_rows);
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
    return fmt::format("{}; no column has two values; the columns are {}", what, joined(names));
  }
  const bool more = candidates.size() > 8;
  if (more) candidates.resize(8);
  return fmt::format("{}; columns with two values: {}{}", what, joined(candidates),
                     more ? ", ..." : "");
}

}  // namespace emblem
