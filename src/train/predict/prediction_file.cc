#include "train/predict/prediction_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/joined.h"
#include "core/text/utf8.h"
#include "data/format/decoder.h"
#include "data/format/rows/kept_columns.h"
#include "emblem/error.h"
#include "model/layers/outputs.h"

namespace emblem {
namespace {

constexpr const char* kOnlyProbability = "probability";
constexpr const char* kPredictionColumn = "prediction";

std::vector<std::string> header_of(const std::vector<ColumnSpec>& kept,
                                   std::span<const OutputSpec> outputs) {
  std::vector<std::string> keep;
  for (const ColumnSpec& column : kept) keep.push_back(column.name);
  std::vector<std::string> names = keep;
  for (std::string& column : prediction_columns(outputs)) {
    EMBLEM_REQUIRE(std::find(keep.begin(), keep.end(), column) == keep.end(), "--keep names \"",
                   column, "\", which is the column that predict adds; rename it in the input");
    names.push_back(std::move(column));
  }
  return names;
}

}  // namespace

std::vector<OutputSpec> choose_outputs(const std::vector<HeadSpec>& heads,
                                       std::span<const std::string> names) {
  if (names.empty()) return default_outputs(heads);
  const std::vector<OutputSpec> all = all_outputs(heads);
  std::vector<OutputSpec> chosen;
  for (const std::string& name : names) {
    const auto has_name = [&](const OutputSpec& output) { return output.name == name; };
    const auto found = std::find_if(all.begin(), all.end(), has_name);
    if (found == all.end()) {
      std::vector<std::string> known;
      for (const OutputSpec& output : all) known.push_back(output.name);
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the model has no output \"{}\"; it has {}", name, joined(known)));
    }
    EMBLEM_REQUIRE(std::none_of(chosen.begin(), chosen.end(), has_name), "output \"", name,
                   "\" is named twice; name each once");
    chosen.push_back(*found);
  }
  return chosen;
}

std::vector<std::string> prediction_columns(std::span<const OutputSpec> outputs) {
  if (outputs.size() == 1 && outputs[0].name == kOnlyProbability) return {kPredictionColumn};
  std::vector<std::string> columns;
  for (const OutputSpec& output : outputs) {
    if (output.cols == 1) {
      columns.push_back(output.name);
      continue;
    }
    for (int64_t i = 0; i < output.cols; ++i) columns.push_back(cat(output.name, "_", i));
  }
  return columns;
}

std::vector<std::vector<float>> output_values(const std::vector<HeadSpec>& heads,
                                              std::span<const OutputSpec> outputs, int64_t rows,
                                              const std::vector<View<const float>>& logits) {
  std::vector<std::vector<float>> values;
  for (const OutputSpec& output : outputs) {
    values.emplace_back(static_cast<size_t>(rows * output.cols));
    compute_output(output, heads[output.head].classes, logits[output.head], values.back().data());
  }
  return values;
}

PredictionFile::PredictionFile(const std::string& path, const std::vector<ColumnSpec>& keep,
                               const std::vector<HeadSpec>& heads,
                               const std::vector<OutputSpec>& outputs)
    : heads_(heads), outputs_(outputs) {
  const std::vector<std::string> header = header_of(keep, outputs);
  if (!columnar_format_of(path).empty()) {
    table_ = std::make_unique<PredictionTable>(path, keep, std::span(header).subspan(keep.size()));
    return;
  }
  for (const ColumnSpec& column : keep)
    if (column.stored == "binary") kept_binary_ = column.name;
  file_ = std::make_unique<OutputFile>(path);
  file_->write(csv_line(header) + "\n");
}

void PredictionFile::finish() {
  if (table_ != nullptr) return table_->finish();
  file_->finish();
}

void PredictionFile::add(const Batch& batch, const std::vector<View<const float>>& logits) {
  add(batch, output_values(heads_, outputs_, batch.rows, logits));
}

void PredictionFile::add(const Batch& batch, const std::vector<std::vector<float>>& values) {
  if (table_ != nullptr) return write_table(batch, values);
  write_lines(batch, values);
}

void PredictionFile::write_table(const Batch& batch,
                                 const std::vector<std::vector<float>>& values) {
  std::vector<std::vector<float>> columns;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const int64_t cols = outputs_[i].cols;
    for (int64_t col = 0; col < cols; ++col) {
      std::vector<float>& column = columns.emplace_back();
      for (int64_t row = 0; row < batch.rows; ++row)
        column.push_back(values[i][static_cast<size_t>(row * cols + col)]);
    }
  }
  table_->add(batch, columns);
}

void PredictionFile::write_lines(const Batch& batch,
                                 const std::vector<std::vector<float>>& values) {
  fmt::memory_buffer text;
  const bool keeps = batch.kept.rows() > 0;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto at = static_cast<size_t>(row);
    const bool bad = !batch.bad.empty() && batch.bad[at] != 0;
    if (keeps) text.append(batch.kept[at]);
    EMBLEM_REQUIRE(kept_binary_.empty() || !keeps ||
                       find_invalid_utf8(batch.kept[at]) == std::string_view::npos,
                   "--keep: column ", in_quotes(kept_binary_),
                   " is binary and holds bytes that are not UTF-8 text, which CSV holds; omit it, "
                   "or write FILE.parquet");
    bool first = !keeps;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const int64_t cols = outputs_[i].cols;
      for (int64_t col = 0; col < cols; ++col) {
        if (!first) text.push_back(',');
        first = false;
        if (!bad) fmt::format_to(std::back_inserter(text), "{}", values[i][row * cols + col]);
      }
    }
    const bool alone = !keeps && outputs_.size() == 1 && outputs_[0].cols == 1;
    if (bad && alone) text.append(std::string_view("\"\""));
    text.push_back('\n');
  }
  file_->write({text.data(), text.size()});
}

}  // namespace emblem
