#include "data/feature/label_reader.h"

#include <algorithm>
#include <cmath>

#include "data/format/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Columns of `block` side by side: [rows, columns].
void copy_matrix(const Block& block, const std::vector<int>& columns, HostVector<float>& out) {
  const auto width = static_cast<int64_t>(columns.size());
  out.resize(static_cast<size_t>(block.rows * width));
  if (width == 1) {
    copy_numbers(block.columns[static_cast<size_t>(columns[0])], 0, block.rows, out.data());
    return;
  }
  constexpr int64_t kTile = 256;
  float tile[kTile];
  for (int64_t begin = 0; begin < block.rows; begin += kTile) {
    const int64_t count = std::min(kTile, block.rows - begin);
    for (int64_t c = 0; c < width; ++c) {
      copy_numbers(block.columns[static_cast<size_t>(columns[static_cast<size_t>(c)])], begin,
                   count, tile);
      float* to = out.data() + begin * width + c;
      for (int64_t i = 0; i < count; ++i, to += width) *to = tile[i];
    }
  }
}

bool is_valid(const LabelSpec& label, float value) {
  switch (label.kind) {
    case LabelKind::kBinary:
      return value == 0.0f || value == 1.0f;
    case LabelKind::kClass:
      return value >= 0.0f && value < static_cast<float>(label.classes) &&
             value == std::floor(value);
    case LabelKind::kNumber:
      break;
  }
  return std::isfinite(value);
}

std::string expectation(const LabelSpec& label) {
  switch (label.kind) {
    case LabelKind::kBinary:
      return "binary cross-entropy expects 0 or 1";
    case LabelKind::kClass:
      return cat("expected a class, 0 to ", label.classes - 1);
    case LabelKind::kNumber:
      break;
  }
  return "expected a number";
}

}  // namespace

ColumnRequest request_for_label(const LabelSpec& label, const config::DataConfig& data) {
  ColumnRequest request{.name = label.name, .na_is_missing = true};
  if (label.kind == LabelKind::kNumber) return request;
  request.label = LabelText::kWords;
  if (label.kind == LabelKind::kBinary && data.has_label_positive()) {
    request.label = LabelText::kPositive;
    request.label_positive = data.label_positive();
  }
  return request;
}

ColumnRequest request_for_weight(const std::string& name) {
  return {.name = name, .na_is_missing = true};
}

void copy_numbers(const Column& column, int64_t begin, int64_t count, float* to) {
  if (column.type == ColumnType::kFloat) {
    std::copy_n(column.floats.data() + begin, count, to);
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(column.ints[begin + i]);
  if (column.missing.empty()) return;
  for (int64_t i = 0; i < count; ++i) {
    if (column.missing[begin + i] != 0) to[i] = kMissing;
  }
}

LabelReader::LabelReader(const FeatureLayout& layout, std::vector<int> label_columns,
                         std::vector<int> weight_columns)
    : labels_(layout.labels),
      weights_(layout.weight_fields),
      label_columns_(std::move(label_columns)),
      weight_columns_(std::move(weight_columns)) {}

void LabelReader::read(const Block& block, Batch& out, RowMarks& marks) const {
  copy_matrix(block, label_columns_, out.labels);
  for (size_t c = 0; c < label_columns_.size(); ++c) check_labels(c, out, marks);
  copy_matrix(block, weight_columns_, out.sample_weights);
  for (size_t c = 0; c < weight_columns_.size(); ++c) check_weights(c, out, marks);
}

void LabelReader::check_labels(size_t at, const Batch& out, RowMarks& marks) const {
  const LabelSpec& label = labels_[at];
  const size_t width = label_columns_.size();
  for (int64_t row = 0; row < out.rows; ++row) {
    const float value = out.labels[static_cast<size_t>(row) * width + at];
    if (is_valid(label, value)) [[likely]]
      continue;
    marks.add(row, [&] {
      return cat("label ", label.name,
                 std::isnan(value) ? std::string(" is missing or NaN") : cat(" is ", value), " (",
                 expectation(label), ")");
    });
  }
}

void LabelReader::check_weights(size_t at, const Batch& out, RowMarks& marks) const {
  const size_t width = weight_columns_.size();
  for (int64_t row = 0; row < out.rows; ++row) {
    const float weight = out.sample_weights[static_cast<size_t>(row) * width + at];
    if (weight >= 0.0f && std::isfinite(weight)) [[likely]]
      continue;
    marks.add(row, [&] {
      return cat("sample weight ", weights_[at],
                 std::isnan(weight) ? std::string(" is missing or NaN") : cat(" is ", weight),
                 " (expected a number that is not negative)");
    });
  }
}

}  // namespace emblem
