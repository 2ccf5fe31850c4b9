#include "data/feature/transform.h"

#include <algorithm>
#include <cmath>

#include "data/feature/row_gather.h"
#include "data/format/csv_types.h"
#include "data/format/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kTileRows = 256;

// Two requests for one column differ only in CSV, where the request says how text is read.
int position_of(const ColumnRequest& wanted, const std::vector<ColumnRequest>& requests,
                config::DatasetType type) {
  for (size_t i = 0; i < requests.size(); ++i) {
    if (type == config::CsvDataset ? requests[i] == wanted : requests[i].name == wanted.name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

ColumnType declared_type(const std::string& column, const config::DataConfig& data,
                         ColumnType otherwise) {
  for (const config::Field& field : data.input_fields()) {
    if (field.input_name() == column && field.has_input_type() &&
        type_of(field.input_type()) == ColumnType::kInt64)
      return ColumnType::kInt64;
  }
  return otherwise;
}

// Under FG_NONE: ids and numbers as they are.
ColumnRequest request_for_encoded(const FeatureSpec& feature, const config::DataConfig& data) {
  ColumnRequest request{.name = feature.column};
  if (feature.kind == FeatureKind::kSparse) {
    request.type = ColumnType::kInt64;
    request.separators = data.fg_encoded_multival_sep();
    request.weighted = feature.config.id_feature().weighted();
    request.advice =
        "fg_mode FG_NONE takes ids as they are; set data_config { fg_mode: FG_DAG } for text to be "
        "hashed and numbers to be put into buckets";
    return request;
  }
  if (feature.dense_cols > 1) request.separators = data.fg_encoded_multival_sep();
  request.na_is_missing = true;
  return request;
}

ColumnRequest request_for(const FeatureSpec& feature, const Semantics& semantics,
                          const config::DataConfig& data) {
  if (semantics.fg_mode == config::FG_NONE) return request_for_encoded(feature, data);
  ColumnRequest request{.name = feature.column};
  if (feature.config.has_raw_feature()) {
    const config::RawFeature& raw = feature.config.raw_feature();
    if (raw.value_dim() > 1) request.separators = raw.separator() + data.fg_encoded_multival_sep();
    request.na_is_missing = true;
    return request;
  }
  const config::IdFeature& id = feature.config.id_feature();
  request.type = id.has_num_buckets() ? ColumnType::kInt64
                                      : declared_type(feature.column, data, ColumnType::kText);
  request.separators = id.separator() + data.fg_encoded_multival_sep();
  request.weighted = id.weighted();
  if (id.has_num_buckets())
    request.advice = "text needs hash_bucket_size or dynamicemb in place of num_buckets";
  return request;
}

// TorchEasyRec's models of one task learn the first label, too.
ColumnRequest request_for_label(const config::DataConfig& data) {
  ColumnRequest request{.name = data.label_fields().empty() ? "label" : data.label_fields(0)};
  request.na_is_missing = true;
  request.label = data.has_label_positive() ? LabelText::kPositive : LabelText::kWords;
  request.label_positive = data.label_positive();
  return request;
}

ColumnRequest request_for_weight(const std::string& name) {
  return {.name = name, .na_is_missing = true};
}

// Row r of a single-valued column as a number; NaN where it is missing.
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

}  // namespace

std::vector<ColumnRequest> columns_needed(const config::DataConfig& data,
                                          const FeatureLayout& features, LabelCheck labels) {
  std::vector<ColumnRequest> requests;
  const auto need = [&](const ColumnRequest& request) {
    if (position_of(request, requests, data.dataset_type()) < 0) requests.push_back(request);
  };
  if (labels != LabelCheck::kIgnore) need(request_for_label(data));
  EMBLEM_REQUIRE(data.sample_weight_fields_size() <= 1, "data_config.sample_weight_fields has ",
                 data.sample_weight_fields_size(), " fields; expected at most one");
  if (labels != LabelCheck::kIgnore) {
    for (const std::string& name : data.sample_weight_fields()) need(request_for_weight(name));
  }
  for (const FeatureSpec& feature : features.features)
    need(request_for(feature, features.semantics, data));
  return requests;
}

// Which rows are bad; made only when one is.
class FeatureTransform::RowMarks {
 public:
  explicit RowMarks(DecodedPiece& piece) : piece_(piece) {}

  template <class Message>
  void add(int64_t row, Message&& message) {
    if (bad_.empty()) bad_.assign(static_cast<size_t>(piece_.block.rows), 0);
    if (std::exchange(bad_[static_cast<size_t>(row)], 1) != 0) return;
    piece_.bad.add(piece_.positions[static_cast<size_t>(row)], message());
  }

  // Removes the marked rows from `batch`.
  void drop_rows(Batch& batch) const {
    if (bad_.empty()) return;
    std::vector<RowRun> good;
    for (uint32_t row = 0; row < bad_.size(); ++row)
      if (bad_[row] == 0) add_row(kGood, row, good);
    replace_rows(batch, {&batch}, good);
  }

  // Puts `blank`, a batch of one row, in the place of every marked row, and of every row that the
  // decoder could not read.
  void blank_rows(const Batch& blank, Batch& batch) const {
    const std::vector<int64_t>& unread = piece_.bad_positions;
    if (bad_.empty() && unread.empty()) return;
    std::vector<RowRun> runs;
    size_t next_unread = 0;
    const auto add_unread_before = [&](int64_t position) {
      for (; next_unread < unread.size() && unread[next_unread] < position; ++next_unread)
        runs.push_back({kBlank, 0, 1});
    };
    for (uint32_t row = 0; row < static_cast<uint32_t>(batch.rows); ++row) {
      add_unread_before(piece_.positions[row]);
      if (!bad_.empty() && bad_[row] != 0)
        runs.push_back({kBlank, 0, 1});
      else
        add_row(kGood, row, runs);
    }
    add_unread_before(INT64_MAX);
    replace_rows(batch, {&batch, &blank}, runs);
  }

 private:
  static constexpr uint32_t kGood = 0, kBlank = 1;  // sources of runs

  static void add_row(uint32_t source, uint32_t row, std::vector<RowRun>& runs) {
    if (!runs.empty() && runs.back().source == source &&
        runs.back().begin + runs.back().count == row) {
      ++runs.back().count;
    } else {
      runs.push_back({source, row, 1});
    }
  }

  static void replace_rows(Batch& batch, const std::vector<const Batch*>& sources,
                           const std::vector<RowRun>& runs) {
    Batch result = batch_in(batch.memory());
    gather_rows(sources, runs, result);
    batch = std::move(result);
  }

  DecodedPiece& piece_;
  std::vector<uint8_t> bad_;
};

FeatureTransform::FeatureTransform(const config::DataConfig& data, const FeatureLayout& features,
                                   LabelCheck labels, const std::vector<ColumnRequest>& requests,
                                   const std::vector<ColumnSpec>& columns, BadRowHandling bad_rows)
    : label_check_(labels),
      bad_rows_(bad_rows),
      dense_cols_(features.dense_cols),
      sparse_count_(static_cast<size_t>(features.sparse_count)) {
  const auto column_of = [&](const ColumnRequest& request) {
    return position_of(request, requests, data.dataset_type());
  };
  if (labels != LabelCheck::kIgnore) {
    const ColumnRequest label = request_for_label(data);
    label_name_ = label.name;
    label_column_ = column_of(label);
    for (const std::string& name : data.sample_weight_fields())
      weight_column_ = column_of(request_for_weight(name));
  }
  const Semantics& semantics = features.semantics;
  std::vector<IdFeatureRule*> takers(requests.size(), nullptr);
  ids_.reserve(features.features.size());
  for (const FeatureSpec& feature : features.features) {
    const int column = column_of(request_for(feature, semantics, data));
    const bool encoded = semantics.fg_mode == config::FG_NONE;
    if (feature.kind == FeatureKind::kDense) {
      numbers_.push_back(RawFeatureRule::of(feature, semantics, column));
    } else if (feature.config.has_raw_feature() && !encoded) {
      buckets_.push_back(RawFeatureRule::of(feature, semantics, column));
    } else {
      ids_.push_back(
          IdFeatureRule::of(feature, semantics, column, columns[static_cast<size_t>(column)].type));
      takers[static_cast<size_t>(column)] = &ids_.back();
    }
  }
  // Id features are read last, so the last one to read a column may take its keys instead of
  // copying.
  for (IdFeatureRule* rule : takers) {
    if (rule != nullptr) rule->take_keys = true;
  }
}

void FeatureTransform::apply(DecodedPiece& piece, Batch& out) const {
  const int64_t rows = piece.block.rows;
  RowMarks marks(piece);
  const auto report = [&](int64_t row, std::string message) {
    marks.add(row, [&] { return std::move(message); });
  };
  out.rows = rows;
  out.bad.clear();
  out.kept.clear();
  out.resize_sparse(sparse_count_);
  read_labels(piece, out, marks);
  read_numbers(piece, out, marks);
  for (const RawFeatureRule& rule : buckets_) {
    rule.bucketize(piece.block, out.sparse[static_cast<size_t>(rule.sparse_index)], report);
  }
  for (const IdFeatureRule& rule : ids_) {
    rule.apply(piece.block, out.sparse[static_cast<size_t>(rule.sparse_index)], report);
  }
  if (bad_rows_ == BadRowHandling::kSkip) return marks.drop_rows(out);
  marks.blank_rows(blank_row(out.memory()), out);
  std::swap(out.kept, piece.kept);
}

// Without keys, and with the label and numbers 0.
Batch FeatureTransform::blank_row(std::pmr::memory_resource* memory) const {
  Batch blank = batch_in(memory);
  blank.rows = 1;
  blank.bad.assign(1, 1);
  blank.labels.assign(label_column_ < 0 ? 0 : 1, 0.0f);
  blank.sample_weights.assign(weight_column_ < 0 ? 0 : 1, 0.0f);
  blank.dense.assign(static_cast<size_t>(dense_cols_), 0.0f);
  blank.resize_sparse(sparse_count_);
  for (SparseColumn& column : blank.sparse) column.offsets.assign(2, 0);
  return blank;
}

void FeatureTransform::read_labels(const DecodedPiece& piece, Batch& out, RowMarks& marks) const {
  const int64_t rows = piece.block.rows;
  out.labels.resize(label_column_ < 0 ? 0 : static_cast<size_t>(rows));
  if (label_column_ >= 0)
    copy_numbers(piece.block.columns[static_cast<size_t>(label_column_)], 0, rows,
                 out.labels.data());
  for (int64_t row = 0; row < static_cast<int64_t>(out.labels.size()); ++row) {
    const float value = out.labels[row];
    if (value == 0.0f || value == 1.0f) [[likely]]
      continue;
    if (label_check_ == LabelCheck::kNumber && !std::isnan(value)) continue;
    marks.add(row, [&] {
      return cat("label ", label_name_,
                 std::isnan(value) ? std::string(" is missing or NaN") : cat(" is ", value),
                 label_check_ == LabelCheck::kBinary ? " (binary cross-entropy expects 0 or 1)"
                                                     : " (expected a number)");
    });
  }
  out.sample_weights.clear();
  if (weight_column_ < 0) return;
  out.sample_weights.resize(static_cast<size_t>(rows));
  copy_numbers(piece.block.columns[static_cast<size_t>(weight_column_)], 0, rows,
               out.sample_weights.data());
  for (int64_t row = 0; row < rows; ++row) {
    const float weight = out.sample_weights[row];
    if (weight >= 0.0f) continue;
    marks.add(row, [&] {
      return cat("sample weight is ", weight, " (expected a number that is not negative)");
    });
  }
}

void FeatureTransform::read_numbers(const DecodedPiece& piece, Batch& out, RowMarks& marks) const {
  const int64_t rows = piece.block.rows;
  out.dense.resize(static_cast<size_t>(rows * dense_cols_));
  float tile[kTileRows];
  for (int64_t begin = 0; begin < rows; begin += kTileRows) {
    const int64_t count = std::min(kTileRows, rows - begin);
    for (const RawFeatureRule& rule : numbers_) {
      if (rule.value_dim > 1) continue;
      const Column& column = piece.block.columns[static_cast<size_t>(rule.column)];
      copy_numbers(column, begin, count, tile);
      rule.normalize(tile, count);
      float* to = out.dense.data() + begin * dense_cols_ + rule.dense_begin;
      for (int64_t i = 0; i < count; ++i) to[i * dense_cols_] = tile[i];
    }
  }
  const auto report = [&](int64_t row, std::string message) {
    marks.add(row, [&] { return std::move(message); });
  };
  for (const RawFeatureRule& rule : numbers_) {
    if (rule.value_dim > 1)
      rule.read_vectors(piece.block, dense_cols_, out.dense.data() + rule.dense_begin, report);
    if (!rule.has_default()) mark_missing(rule, out, marks);
  }
}

void FeatureTransform::mark_missing(const RawFeatureRule& rule, const Batch& out,
                                    RowMarks& marks) const {
  const float* values = out.dense.data() + rule.dense_begin;
  for (int64_t row = 0; row < out.rows; ++row, values += dense_cols_) {
    for (int64_t i = 0; i < rule.value_dim; ++i) {
      if (std::isnan(values[i])) marks.add(row, [&] { return rule.missing_message(); });
    }
  }
}

}  // namespace emblem
