#include "data/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/math/hash.h"
#include "core/text/text.h"
#include "data/distinct_count.h"
#include "data/format/columnar/columnar_decoder.h"

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
bool add_value(const ColumnSpec& spec, const Column& column, size_t at, ColumnSummary& summary) {
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
      if (column.is_marked_missing(at)) return false;
      summary.add_number(spec.stored == "uint64"
                             ? static_cast<double>(static_cast<uint64_t>(column.ints[at]))
                             : static_cast<double>(column.ints[at]),
                         hash_of_integer(column.ints[at]));
      return true;
    case ColumnType::kText:
      break;
  }
  const std::string_view text = text_at(column, at);
  if (text.empty()) return false;
  summary.add_value(hash_string(text));
  return true;
}

void add_column(const ColumnSpec& spec, const Column& column, int64_t rows,
                ColumnSummary& summary) {
  const auto first = [](const HostVector<int32_t>& offsets, int64_t at) {
    return offsets.empty() ? at : static_cast<int64_t>(offsets[static_cast<size_t>(at)]);
  };
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin =
        static_cast<size_t>(first(column.offsets, first(column.sequence_offsets, row)));
    const auto end =
        static_cast<size_t>(first(column.offsets, first(column.sequence_offsets, row + 1)));
    bool any = false;
    for (size_t at = begin; at < end; ++at) any = add_value(spec, column, at, summary) || any;
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
      "{:<16} {:<7} {:>8} {:>14} {:>14} {:>14} {:>12}", printable(spec.name), name_of(spec.type),
      summary.rows_without == 0 ? "-" : fmt::format("{:.2f}%", missing),
      numeric ? number(summary.min) : "-",
      numeric ? number(summary.sum / static_cast<double>(summary.values)) : "-",
      numeric ? number(summary.max) : "-",
      fmt::format("{}{:.0f}", summary.distinct.exact() ? "" : "~", summary.distinct.estimate()));
}

// Row groups are what a thread reads at a time: few large ones keep threads idle and need memory,
// many small ones are slow.
std::string layout_lines(const ColumnarLayout& layout) {
  constexpr int64_t kMany = 1'000'000, kFew = 4096;
  const bool is_batch = layout.part_name == "record batch";
  const std::string parts = layout.part_name + (is_batch ? "es" : "s");
  std::string text = fmt::format("{:<8} {} {} of up to {} rows\n", "parts", layout.parts,
                                 layout.parts == 1 ? layout.part_name : parts, layout.most_rows);
  const bool are_small = layout.parts > 1 && layout.rows / layout.parts < kFew;
  if (layout.most_rows > kMany || are_small)
    text += fmt::format(
        "         {} of about 65536 rows are read faster: emblem convert --format parquet\n",
        parts);
  return text;
}

std::string unreadable_lines(const ColumnarLayout& layout) {
  std::string text;
  for (const std::string& column : layout.unreadable)
    text += fmt::format("skipped  {}: cannot be read\n", printable(column));
  return text;
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
      add_column(schema[i], block.columns[i], block.rows, summaries[i]);
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
  const std::optional<ColumnarLayout> layout = columnar_layout(source);
  if (layout) text += layout_lines(*layout) + unreadable_lines(*layout);
  if (reader->bad_rows() > 0) text += fmt::format("bad rows {} (skipped)\n", reader->bad_rows());
  for (size_t i = 0; i < schema.size(); ++i) {
    if (!is_label(schema[i].name) || summaries[i].values == 0) continue;
    text +=
        fmt::format("label    mean {:.6f}, {} rows are 1\n",
                    summaries[i].sum / static_cast<double>(summaries[i].values), summaries[i].ones);
  }
  text += fmt::format("\n{:<16} {:<7} {:>8} {:>14} {:>14} {:>14} {:>12}", "column", "type",
                      "missing", "min", "mean", "max", "distinct");
  text += layout ? "  stored as\n" : "\n";
  for (size_t i = 0; i < schema.size(); ++i) {
    text += column_line(schema[i], summaries[i], rows);
    text += layout ? "  " + layout->types[i] + "\n" : "\n";
  }
  return text;
}

}  // namespace emblem
