#include "init/starter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "config/check.h"
#include "config/load.h"
#include "core/text.h"
#include "data/format/columnar_decoder.h"
#include "data/format/decoder.h"
#include "emblem/error.h"
#include "init/column_table.h"
#include "init/holdout_choice.h"

namespace emblem {
namespace {

constexpr double kFewRows = 200;

// Columns of a file without a header may be given by their number, names by what they are without
// spaces around them.
std::string resolve(const std::string& name, const std::vector<std::string>& columns,
                    const DataSource& source) {
  for (const std::string& column : columns)
    if (column == name) return column;
  for (const std::string& column : columns)
    if (trim(column) == trim(name) && !trim(name).empty()) return column;
  size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  const bool counts = source.type == config::CsvDataset && !source.with_header;
  return counts && is_number && number >= 1 && number <= columns.size() ? columns[number - 1]
                                                                        : name;
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
  const std::string decimal = counted(categories_that(
      profile, columns, [](const ColumnProfile& column) { return column.decimal_integers > 0; }));
  if (!decimal.empty())
    warnings.push_back(cat("values of ", decimal,
                           " are whole numbers written as \"3.0\", which is another category than "
                           "\"3\": other files and requests have to write them in the same way"));
  return warnings;
}

std::vector<std::string> warnings_of(const DataProfile& profile, const LabelChoice& label,
                                     const ColumnWishes& wishes,
                                     const std::vector<ColumnChoice>& columns) {
  std::vector<std::string> warnings = label.warnings;
  if (label.is_guess)
    warnings.push_back(cat("label ", in_quotes(wishes.label), ": ", in_quotes(label.positive),
                           " is taken for 1, as the rarer of two values; --label-positive changes "
                           "that"));
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
  if (profile.bad_rows > 0)
    warnings.push_back(
        cat(profile.bad_rows, " of the sampled rows cannot be read and are skipped"));
  return warnings;
}

// Few rows need a larger share for both classes to be among those held out.
double holdout_for(double rows) { return rows < 20 ? 0 : rows < kFewRows ? 0.3 : 0.1; }

}  // namespace

Starter make_starter(const StarterOptions& options) {
  const DataSource source = source_of(options);
  const ColumnWishes wishes = resolve(options.columns, source);
  const DataProfile profile = profile_data(source, options.sampled_rows, wishes.label);
  EMBLEM_REQUIRE(!wishes.label.empty(), missing_label_problem(profile));
  const std::vector<ColumnChoice> columns = choose_columns(profile, wishes);
  const LabelChoice label = choose_label(
      *profile.find(wishes.label), {options.label_positive, options.task, options.max_bad_rows});
  PipelineSettings settings = options.pipeline;
  if (settings.holdout_ratio < 0) settings.holdout_ratio = holdout_for(profile.total_rows);
  settings.holdout_fields = choose_holdout_fields(profile, columns);
  Starter starter;
  starter.pipeline = pipeline_text(profile, columns, label, settings);
  check_pipeline(parse_pipeline(starter.pipeline, "the pipeline"));
  starter.summary = column_table(profile, columns, label);
  starter.warnings = warnings_of(profile, label, wishes, columns);
  if (!settings.eval_input.empty()) {
    for (const std::string& warning : check_eval_input(profile, columns, settings.eval_input))
      starter.warnings.push_back(warning);
  }
  return starter;
}

}  // namespace emblem
