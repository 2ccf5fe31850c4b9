#include "init/starter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "config/load/load.h"
#include "core/text/joined.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "data/feature/column_requests.h"
#include "data/format/columnar/columnar_decoder.h"
#include "data/format/decoder.h"
#include "emblem/error.h"
#include "init/column_choice.h"
#include "init/column_kind.h"
#include "init/feature_text.h"
#include "init/label_choice.h"
#include "init/lower_case.h"
#include "model/check/check.h"

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
  return joined(choice.parts, ", ",
                [](config::DatePart part) { return lower_case(config::DatePart_Name(part)); });
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

std::string of_all_rows(const DataProfile& profile) {
  return profile.is_beginning ? " of the first"
                              : fmt::format(" of about {}", format_count(profile.total_rows));
}

// Lines of at most 100 characters.
std::string column_table(const DataProfile& profile, const std::vector<ColumnChoice>& columns,
                         const LabelChoice& label) {
  std::string text = fmt::format("{} {:<8} {:>8} {:>10}  {}\n", fit("column", kNameWidth), "found",
                                 "missing", "distinct", "feature");
  for (size_t i = 0; i < std::min(columns.size(), kMostLines); ++i)
    text += line_of(profile.columns[i], columns[i], label);
  if (columns.size() > kMostLines)
    text += fmt::format("and {} columns more\n", columns.size() - kMostLines);
  const std::string of_all = profile.all_read ? "" : of_all_rows(profile);
  return text +
         fmt::format("\n{}{} rows read, {}\n", profile.rows_read, of_all, outcome_text(label));
}

// Single values that are equal in files of all formats. Dates are not: they are numbers in some.
bool is_comparable(const ColumnProfile& column) {
  return column.is_text_file && !column.is_list && column.unusable.empty() &&
         column.present() > 0 && dates_of(column) == nullptr;
}

bool is_key(const ColumnProfile& column) {
  return column.present() == column.rows && column.rows >= 50 &&
         static_cast<double>(column.distinct_count()) > 0.98 * static_cast<double>(column.rows);
}

// A column that has another value in each row, else the used columns with the most values; none
// where many rows are equal: they would all be on one side.
std::vector<std::string> choose_holdout_fields(const DataProfile& profile,
                                               const std::vector<ColumnChoice>& columns) {
  constexpr size_t kMostFields = 16;
  constexpr double kFewestContents = 200;  // for a share of them to be near that of the rows
  if (!reads_as_requested(profile.source.type)) return {};
  std::vector<const ColumnProfile*> candidates;
  double contents = 0;       // different ones among the values of the candidates, at least
  bool have_others = false;  // columns that differ, but are no candidates
  for (size_t i = 0; i < columns.size(); ++i) {
    const ColumnProfile& column = profile.columns[i];
    if (columns[i].use == ColumnUse::kLabel) continue;
    const bool is_used = columns[i].use != ColumnUse::kSkipped && is_comparable(column);
    if (is_used) {
      candidates.push_back(&column);
      contents = std::max(contents, static_cast<double>(column.distinct_count()));
    } else if (column.distinct_count() > 1 || column.missing > 0) {
      have_others = true;
    }
    if (!is_comparable(column) || !is_key(column)) continue;
    const bool is_text_key =
        !is_numeric(column) && list_of(column) == nullptr && columns[i].use == ColumnUse::kSkipped;
    if (is_integer(column) || is_text_key) return {column.name};
  }
  if (!have_others && candidates.size() <= kMostFields) contents = profile.distinct_rows;
  if (contents < std::min(kFewestContents, 0.5 * static_cast<double>(profile.rows_read))) return {};
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const ColumnProfile* a, const ColumnProfile* b) {
                     return a->distinct_count() > b->distinct_count();
                   });
  if (candidates.size() > kMostFields) candidates.resize(kMostFields);
  std::vector<std::string> names;
  for (const ColumnProfile* column : candidates) names.push_back(column->name);
  return names;
}

constexpr double kFewRows = 200;

// Columns of a file without a header may be given by their number, names by what they are without
// spaces around them.
std::string resolve(const std::string& name, const std::vector<std::string>& columns,
                    const DataSource& source) {
  for (const std::string& column : columns)
    if (column == name) return column;
  for (const std::string& column : columns)
    if (trim(column) == trim(name) && !trim(name).empty()) return column;
  const size_t number = parse_number<size_t>(name).value_or(0);
  const bool counts = source.type == config::CsvDataset && !source.with_header;
  return counts && number >= 1 && number <= columns.size() ? columns[number - 1] : name;
}

ColumnWishes resolve(ColumnWishes wishes, const DataSource& source) {
  if (source.type != config::CsvDataset) {
    if (wishes.label.empty() && !is_columnar(source.type)) wishes.label = "label";
    return wishes;
  }
  const std::vector<std::string> columns = csv_names(source);
  wishes.label = resolve(wishes.label, columns, source);
  wishes.weight = resolve(wishes.weight, columns, source);
  for (auto* names : {&wishes.categories, &wishes.numbers, &wishes.skipped})
    for (std::string& name : *names) name = resolve(name, columns, source);
  return wishes;
}

// Like the guessed source, apart from Criteo's columns in another number, which are plain CSV.
DataSource source_of(const StarterOptions& options) {
  CsvHints hints = options.csv;
  hints.known_column = options.columns.label;
  DataSource source = guess_source(options.input, hints, options.storage);
  if (source.type == config::CriteoTsvDataset) {
    hints.delimiter = "\t";
    const DataSource csv = guess_source(options.input, hints, options.storage);
    if (csv_names(csv).size() != 40) source = csv;
  }
  source.max_bad_rows = options.max_bad_rows;
  return source;
}

// Checks that the data to evaluate on can be read and have the columns that are used. Returns
// warnings.
std::vector<std::string> check_eval_input(const DataProfile& profile,
                                          const std::vector<ColumnChoice>& columns,
                                          const std::string& eval_input) {
  DataSource source = profile.source;
  source.input = eval_input;
  const DataProfile eval = profile_data(source, 10000, "");
  std::vector<std::string> warnings;
  for (size_t i = 0; i < columns.size(); ++i) {
    const ColumnProfile* column = eval.find(profile.columns[i].name);
    EMBLEM_REQUIRE(columns[i].use == ColumnUse::kSkipped || column != nullptr,
                   "--eval: ", eval_input, " has no column ", in_quotes(profile.columns[i].name),
                   ", which ", profile.source.input, " has");
    if (columns[i].use == ColumnUse::kLabel && column->distinct_count() == 1)
      warnings.push_back(cat("--eval: all ", eval.rows_read, " sampled rows of ", eval_input,
                             " have the same label: metrics of them say little"));
  }
  return warnings;
}

// `2 columns ("a", "b")`, or "" without columns. Lists at most five.
std::string counted(const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 5); ++i)
    text += cat(i == 0 ? "" : ", ", in_quotes(names[i]));
  return cat(names.size(), names.size() == 1 ? " column (" : " columns (", text,
             names.size() > 5 ? ", ...)" : ")");
}

// The names of the categories for which `has` is true.
template <typename Has>
std::vector<std::string> categories_that(const DataProfile& profile,
                                         const std::vector<ColumnChoice>& columns, const Has& has) {
  std::vector<std::string> names;
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i].use == ColumnUse::kCategory && has(profile.columns[i]))
      names.push_back(profile.columns[i].name);
  return names;
}

// Values are categories as they are in the file.
std::vector<std::string> spelling_warnings(const DataProfile& profile,
                                           const std::vector<ColumnChoice>& columns) {
  std::vector<std::string> warnings;
  const std::string padded = counted(categories_that(
      profile, columns, [](const ColumnProfile& column) { return column.padded > 0; }));
  if (!padded.empty())
    warnings.push_back(cat("values of ", padded,
                           " have spaces around them, which are part of the value: requests to a "
                           "served model need them too"));
  const std::string mixed =
      counted(categories_that(profile, columns, [](const ColumnProfile& column) {
        return column.decimal_integers > 0 && column.decimal_integers < column.integers;
      }));
  if (!mixed.empty())
    warnings.push_back(cat("whole numbers of ", mixed,
                           " are written in two ways, \"3\" and \"3.0\", which are different "
                           "categories: write them in one way"));
  return warnings;
}

std::vector<std::string> warnings_of(const DataProfile& profile, const LabelChoice& label,
                                     const ColumnWishes& wishes,
                                     const std::vector<ColumnChoice>& columns) {
  std::vector<std::string> warnings = label.warnings;
  if (label.is_guess)
    warnings.push_back(cat("label ", in_quotes(wishes.label), ": ", in_quotes(label.positive),
                           " (the rarer value) is treated as 1; --label-positive changes that"));
  for (size_t i = 0; i < columns.size(); ++i)
    if (!columns[i].warning.empty())
      warnings.push_back(
          cat("column ", in_quotes(profile.columns[i].name), ": ", columns[i].warning));
  for (const std::string& warning : spelling_warnings(profile, columns))
    warnings.push_back(warning);
  if (profile.unnamed_columns > 0)
    warnings.push_back(cat("columns without a name in the header are skipped (",
                           profile.unnamed_columns, "; pandas writes row numbers so)"));
  if (profile.all_read && profile.total_rows < kFewRows)
    warnings.push_back(cat("only ", profile.rows_read, " rows: metrics are unreliable"));
  if (!profile.all_read)
    warnings.push_back(cat(
        profile.rows_read, of_all_rows(profile),
        " rows were read: others may hold values of another form, and up to ",
        bad_rows_allowed(profile),
        " rows that cannot be read are skipped (data_config.max_bad_rows); --rows 0 reads all"));
  if (profile.bad_rows > 0)
    warnings.push_back(
        cat(profile.bad_rows, " of the sampled rows cannot be read and are skipped"));
  return warnings;
}

// Few rows need a larger share for both classes to be among those held out.
double holdout_for(double rows) { return rows < 20 ? 0 : rows < kFewRows ? 0.3 : 0.1; }

PipelineSettings choose_settings(const StarterOptions& options, const DataProfile& profile,
                                 const std::vector<ColumnChoice>& columns,
                                 const LabelChoice& label) {
  PipelineSettings settings = options.pipeline;
  settings.model = choose_model(columns, label, profile.total_rows, settings.model);
  if (settings.holdout_ratio < 0) settings.holdout_ratio = holdout_for(profile.total_rows);
  settings.holdout_fields = choose_holdout_fields(profile, columns);
  if (!settings.training) settings.training = choose_training(profile.total_rows, label.task);
  return settings;
}

DataProfile profile_of(const StarterOptions& options, const DataSource& source,
                       const ColumnWishes& wishes) {
  DataProfile profile = profile_data(source, options.sampled_rows, wishes.label);
  if (options.is_beginning) {
    profile.is_beginning = true;
    profile.all_read = false;
  }
  EMBLEM_REQUIRE(!wishes.label.empty(), missing_label_problem(profile));
  return profile;
}

}  // namespace

StarterDraft::StarterDraft(const StarterOptions& options)
    : options_(options),
      source_(source_of(options)),
      wishes_(resolve(options.columns, source_)),
      profile_(profile_of(options, source_, wishes_)),
      columns_(choose_columns(profile_, wishes_)),
      label_(choose_label(*profile_.find(wishes_.label),
                          {options.label_positive, options.task, options.max_bad_rows})),
      settings_(choose_settings(options, profile_, columns_, label_)) {}

std::string StarterDraft::text(const PipelineSettings& settings) const {
  std::string text = pipeline_text(profile_, columns_, label_, settings);
  check_pipeline(parse_pipeline(text, "the pipeline"));
  return text;
}

Starter StarterDraft::finish(const PipelineSettings& settings) const {
  Starter starter;
  starter.pipeline = text(settings);
  starter.summary = column_table(profile_, columns_, label_);
  starter.warnings = warnings_of(profile_, label_, wishes_, columns_);
  if (settings.eval_input.empty()) return starter;
  for (std::string& warning : check_eval_input(profile_, columns_, settings.eval_input))
    starter.warnings.push_back(std::move(warning));
  return starter;
}

Starter make_starter(const StarterOptions& options) {
  const StarterDraft draft(options);
  return draft.finish(draft.settings());
}

}  // namespace emblem
