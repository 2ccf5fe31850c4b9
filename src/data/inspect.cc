#include "data/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/hash.h"
#include "core/text.h"
#include "data/distinct_count.h"

namespace emblem {
namespace {

struct ColumnSummary {
  int64_t values = 0;
  int64_t rows_without = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  int64_t ones = 0;
  DistinctCount distinct;

  void add_number(double value, uint64_t hash) {
    min = std::min(min, value);
    max = std::max(max, value);
    sum += value;
    ones += value == 1;
    add_value(hash);
  }
  void add_value(uint64_t hash) {
    ++values;
    distinct.add(hash);
  }
};

// Adds value `at`; false when it is missing.
bool add_value(const Column& column, size_t at, ColumnSummary& summary) {
  switch (column.type) {
    case ColumnType::kFloat: {
      const double value = column.floats[at];
      if (std::isnan(value)) return false;
      uint64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      summary.add_number(value, mix64(bits));
      return true;
    }
    case ColumnType::kInt64:
      if (!column.missing.empty() && column.missing[at] != 0) return false;
      summary.add_number(static_cast<double>(column.ints[at]), hash_of_integer(column.ints[at]));
      return true;
    case ColumnType::kText:
      break;
  }
  const size_t begin = at == 0 ? 0 : column.text_ends[at - 1];
  const std::string_view text =
      std::string_view(column.text).substr(begin, column.text_ends[at] - begin);
  if (text.empty()) return false;
  summary.add_value(hash_string(text));
  return true;
}

void add_column(const Column& column, int64_t rows, ColumnSummary& summary) {
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = static_cast<size_t>(column.offsets.empty() ? row : column.offsets[row]);
    const auto end =
        static_cast<size_t>(column.offsets.empty() ? row + 1 : column.offsets[row + 1]);
    bool any = false;
    for (size_t at = begin; at < end; ++at) any = add_value(column, at, summary) || any;
    summary.rows_without += !any;
  }
}

std::string number(double value) {
  return std::fabs(value) < 1e15 && value == std::floor(value) ? fmt::format("{:.0f}", value)
                                                               : fmt::format("{:.6g}", value);
}

const char* name_of(ColumnType type) {
  switch (type) {
    case ColumnType::kFloat:
      return "number";
    case ColumnType::kInt64:
      return "key";
    case ColumnType::kText:
      break;
  }
  return "text";
}

std::string column_line(const ColumnSpec& spec, const ColumnSummary& summary, int64_t rows) {
  const double missing =
      rows == 0 ? 0 : 100.0 * static_cast<double>(summary.rows_without) / static_cast<double>(rows);
  const bool numeric = spec.type != ColumnType::kText && summary.values > 0;
  return fmt::format(
      "{:<16} {:<7} {:>8} {:>14} {:>14} {:>14} {:>12}\n", printable(spec.name), name_of(spec.type),
      summary.rows_without == 0 ? "-" : fmt::format("{:.2f}%", missing),
      numeric ? number(summary.min) : "-",
      numeric ? number(summary.sum / static_cast<double>(summary.values)) : "-",
      numeric ? number(summary.max) : "-",
      fmt::format("{}{:.0f}", summary.distinct.exact() ? "" : "~", summary.distinct.estimate()));
}

bool is_label(const std::string& name) { return name == "label" || name == "Label"; }

}  // namespace

std::string describe_dataset(const DataSource& source) {
  const std::unique_ptr<BlockReader> reader = open_reader(source);
  const std::vector<ColumnSpec>& schema = reader->schema();
  std::vector<ColumnSummary> summaries(schema.size());
  int64_t rows = 0;
  Block block;
  while (reader->next(block)) {
    rows += block.rows;
    for (size_t i = 0; i < schema.size(); ++i)
      add_column(block.columns[i], block.rows, summaries[i]);
  }
  std::string text = fmt::format("format   {}\n", config::DatasetType_Name(source.type));
  text += fmt::format("files    {}, {}\n", reader->files().size(),
                      format_bytes(static_cast<double>(reader->total_bytes())));
  for (size_t i = 0; i < reader->files().size() && i < 10; ++i) {
    text += fmt::format("         {}\n", reader->files()[i]);
  }
  if (reader->files().size() > 10)
    text += fmt::format("         and {} more\n", reader->files().size() - 10);
  text += fmt::format("rows     {}\n", rows);
  if (reader->bad_rows() > 0) text += fmt::format("bad rows {} (skipped)\n", reader->bad_rows());
  for (size_t i = 0; i < schema.size(); ++i) {
    if (!is_label(schema[i].name) || summaries[i].values == 0) continue;
    text +=
        fmt::format("label    mean {:.6f}, {} rows are 1\n",
                    summaries[i].sum / static_cast<double>(summaries[i].values), summaries[i].ones);
  }
  text += fmt::format("\n{:<16} {:<7} {:>8} {:>14} {:>14} {:>14} {:>12}\n", "column", "type",
                      "missing", "min", "mean", "max", "distinct");
  for (size_t i = 0; i < schema.size(); ++i) text += column_line(schema[i], summaries[i], rows);
  return text;
}

}  // namespace emblem
