#include "data/feature/label_reader.h"

#include <algorithm>
#include <cmath>

#include "data/format/text/csv_field.h"
#include "data/format/text/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Columns of `block` side by side: [rows, columns]; NaN for columns of text.
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
      return value >= 0.0f && value <= 1.0f;
    case LabelKind::kClass:
      return value >= 0.0f && value < static_cast<float>(label.classes) &&
             value == std::floor(value);
    case LabelKind::kNumber:
      break;
  }
  return std::isfinite(value);
}

std::string expectation(const LabelSpec& label, float found) {
  switch (label.kind) {
    case LabelKind::kBinary:
      return cat("binary cross-entropy expects a number from 0 to 1",
                 std::isnan(found) ? ""
                                   : "; of two other values, set data_config.label_positive to the "
                                     "one that is 1");
    case LabelKind::kClass:
      return cat("expected a class, 0 to ", label.classes - 1);
    case LabelKind::kNumber:
      break;
  }
  return "expected a number";
}

}  // namespace

ColumnRequest request_for_label(const LabelSpec& label, const config::DataConfig& data) {
  if (!label.values.empty())
    return {.name = label.name, .type = ColumnType::kText, .numbers_as_text = true};
  ColumnRequest request{.name = label.name, .na_is_missing = true};
  if (label.kind == LabelKind::kNumber) return request;
  request.label = LabelText::kWords;
  if (label.kind == LabelKind::kBinary && data.has_label_positive()) {
    request.label = LabelText::kPositive;
    request.label_positive = data.label_positive();
  }
  return request;
}

std::optional<float> positive_number(const config::DataConfig& data) {
  if (!data.has_label_positive()) return std::nullopt;
  float number = 0;
  EMBLEM_REQUIRE(parse_float(data.label_positive(), number) && !std::isnan(number),
                 "data_config.label_positive is ", in_quotes(data.label_positive()),
                 ", but labels of ", config::DatasetType_Name(data.dataset_type()),
                 " are numbers; expected a number");
  return number;
}

ColumnRequest request_for_weight(const std::string& name) {
  return {.name = name, .na_is_missing = true};
}

void copy_numbers(const Column& column, int64_t begin, int64_t count, float* to) {
  if (column.type == ColumnType::kText) {
    std::fill_n(to, count, kMissing);
    return;
  }
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
                         std::vector<int> weight_columns, std::optional<float> positive)
    : labels_(layout.labels),
      weights_(layout.weight_fields),
      label_columns_(std::move(label_columns)),
      weight_columns_(std::move(weight_columns)),
      positive_(positive) {
  for (const LabelSpec& label : labels_) {
    Classes& classes = classes_.emplace_back();
    for (size_t i = 0; i < label.values.size(); ++i) {
      const std::string text(without_spaces(label.values[i]));
      const auto number = static_cast<float>(i);
      EMBLEM_REQUIRE(classes.by_text.emplace(text, number).second, "data_config.label_classes has ",
                     in_quotes(text), " twice; remove one of them");
      float value = 0;
      if (parse_float(text, value) && !std::isnan(value)) classes.by_number.emplace(value, number);
    }
  }
}

void LabelReader::read(const Block& block, Batch& out, RowMarks& marks,
                       FeatureCounts& counts) const {
  copy_matrix(block, label_columns_, out.labels);
  for (size_t c = 0; c < label_columns_.size(); ++c) {
    if (!labels_[c].values.empty()) {
      read_classes(c, block, out, marks);
      continue;
    }
    if (positive_ && labels_[c].kind == LabelKind::kBinary) replace_labels(c, out);
    check_labels(c, out, marks);
  }
  if (label_columns_.size() > 1) check_missing(out, marks, counts);
  copy_matrix(block, weight_columns_, out.sample_weights);
  for (size_t c = 0; c < weight_columns_.size(); ++c) check_weights(c, out, marks);
}

// Replaces the values of a column by the numbers of their classes.
void LabelReader::read_classes(size_t at, const Block& block, Batch& out, RowMarks& marks) const {
  const Column& column = block.columns[static_cast<size_t>(label_columns_[at])];
  const Classes& classes = classes_[at];
  const MissingTexts missing({});
  for (int64_t row = 0; row < out.rows; ++row) {
    float& label = out.labels[static_cast<size_t>(row) * label_columns_.size() + at];
    std::string text;
    if (column.type == ColumnType::kText) {
      text = without_spaces(text_at(column, static_cast<size_t>(row)));
      const auto found = classes.by_text.find(text);
      if (found != classes.by_text.end()) {
        label = found->second;
        continue;
      }
      if (!parse_float(text, label)) label = kMissing;
    }
    const auto found = std::isnan(label) ? classes.by_number.end() : classes.by_number.find(label);
    if (found != classes.by_number.end()) {
      label = found->second;
      continue;
    }
    const bool is_missing = std::isnan(label) && (text.empty() || missing.is_missing_number(text));
    if (is_missing && labels_[at].may_be_missing && labels_.size() > 1) continue;
    marks.add(row, [&] {
      return cat("label ", labels_[at].name,
                 is_missing     ? std::string(" is missing")
                 : text.empty() ? cat(" is ", label)
                                : cat(" is ", in_quotes(text)),
                 " (expected one of data_config.label_classes)");
    });
  }
}

void LabelReader::replace_labels(size_t at, Batch& out) const {
  const size_t width = label_columns_.size();
  for (int64_t row = 0; row < out.rows; ++row) {
    float& value = out.labels[static_cast<size_t>(row) * width + at];
    if (!std::isnan(value)) value = value == *positive_ ? 1.0f : 0.0f;
  }
}

// Rows of which nothing would be learned.
void LabelReader::check_missing(const Batch& out, RowMarks& marks, FeatureCounts& counts) const {
  const size_t width = labels_.size();
  for (int64_t row = 0; row < out.rows; ++row) {
    const float* const of_row = out.labels.data() + static_cast<size_t>(row) * width;
    const auto missing =
        std::count_if(of_row, of_row + width, [](float value) { return std::isnan(value); });
    counts.missing_labels += missing;
    if (missing < static_cast<int64_t>(width)) continue;
    marks.add(row, [&] { return std::string("all labels are missing (expected one at least)"); });
  }
}

void LabelReader::check_labels(size_t at, const Batch& out, RowMarks& marks) const {
  const LabelSpec& label = labels_[at];
  const size_t width = label_columns_.size();
  for (int64_t row = 0; row < out.rows; ++row) {
    const float value = out.labels[static_cast<size_t>(row) * width + at];
    if (is_valid(label, value) || (label.may_be_missing && std::isnan(value))) [[likely]]
      continue;
    marks.add(row, [&] {
      return cat("label ", label.name,
                 std::isnan(value) ? std::string(" is missing or NaN") : cat(" is ", value), " (",
                 expectation(label, value), ")");
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
