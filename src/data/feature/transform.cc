#include "data/feature/transform.h"

#include <algorithm>
#include <cmath>

#include "data/feature/row_gather.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kTileRows = 256;

}  // namespace

FeatureTransform::FeatureTransform(const config::DataConfig& data, const FeatureLayout& features,
                                   LabelCheck labels, const std::vector<ColumnRequest>& requests,
                                   const std::vector<ColumnSpec>& columns, BadRowHandling bad_rows)
    : bad_rows_(bad_rows),
      dense_cols_(features.dense_cols),
      sparse_count_(static_cast<size_t>(features.sparse_count)),
      order_(order_of_features(features.features)),
      sequence_of_sparse_(sparse_count_, -1) {
  const auto column_of = [&](const ColumnRequest& request) {
    return position_of(request, requests, data.dataset_type());
  };
  if (labels != LabelCheck::kIgnore) {
    std::vector<int> label_columns, weight_columns;
    for (const LabelSpec& label : features.labels)
      label_columns.push_back(column_of(request_for_label(label, data)));
    for (const std::string& name : features.weight_fields)
      weight_columns.push_back(column_of(request_for_weight(name)));
    labels_ =
        LabelReader(features, std::move(label_columns), std::move(weight_columns),
                    reads_as_requested(data.dataset_type()) ? std::nullopt : positive_number(data));
  }
  steps_.resize(features.features.size());
  for (const size_t at : order_)
    steps_[at] = step_of(features.features[at], features, data, requests, columns);
  for (size_t at = 0; at < steps_.size(); ++at) {
    const Step& step = steps_[at];
    for (const Source& source : step.sources)
      if (source.kind == FeatureInput::Source::kFeature) steps_[source.at].is_read = true;
    add_absent(features.features[at]);
    const FeatureSpec& feature = features.features[at];
    if (feature.kind == FeatureKind::kSparse && !feature.is_intermediate)
      sequence_of_sparse_[static_cast<size_t>(feature.sparse_index)] =
          static_cast<int32_t>(feature.sequence);
    if (!step.is_in_batch) continue;
    if (step.sequence < 0) (is_plain_number(step) ? plain_numbers_ : others_).push_back(at);
  }
  for (const SequenceSpec& sequence : features.sequences) {
    sequence_widths_.push_back(sequence.dense_cols);
    std::vector<size_t>& members = sequences_.emplace_back();
    for (const size_t at : sequence.features)
      if (steps_[at].is_in_batch) members.push_back(at);
  }
  choose_takers(columns.size());
}

FeatureTransform::Step FeatureTransform::step_of(const FeatureSpec& feature,
                                                 const FeatureLayout& layout,
                                                 const config::DataConfig& data,
                                                 const std::vector<ColumnRequest>& requests,
                                                 const std::vector<ColumnSpec>& columns) const {
  const Semantics& semantics = layout.semantics;
  const bool encoded = semantics.fg_mode == config::FG_NONE;
  Step step;
  step.name = feature.name;
  if (feature.inputs.empty()) {
    step.is_in_batch = false;
    return step;
  }
  step.operation = operator_of(feature, semantics);
  step.is_in_batch = !feature.is_intermediate;
  step.sequence = feature.sequence;
  step.dense_begin = feature.dense_begin;
  step.sparse_index = static_cast<size_t>(feature.sparse_index);
  for (size_t i = 0; i < feature.inputs.size(); ++i) {
    const FeatureInput& input = feature.inputs[i];
    Source& source = step.sources.emplace_back(Source{input.source, 0});
    if (input.source == FeatureInput::Source::kColumn) {
      const int column =
          position_of(request_for_input(feature, i, step.operation.get(), semantics, data),
                      requests, data.dataset_type());
      source.at = static_cast<size_t>(column);
    } else if (input.source == FeatureInput::Source::kFeature) {
      source.at = static_cast<size_t>(&layout.find(input.name) - layout.features.data());
    }
  }
  EMBLEM_REQUIRE(
      step.operation != nullptr ||
          (step.sources.size() == 1 && step.sources[0].kind != FeatureInput::Source::kConstant),
      "feature ", feature.name, " has ", step.sources.size(),
      " inputs; expected one column or feature");
  step.type = type_of(step, columns);
  const bool has_boundaries = !encoded && !feature.settings.boundaries.empty();
  if (feature.kind == FeatureKind::kDense || has_boundaries) {
    step.numbers.emplace(feature, semantics, data);
    if (has_boundaries) step.boundaries.emplace(feature, semantics);
  } else if (step.is_in_batch) {
    step.keys.emplace(feature, semantics, data, step.type);
  }
  if (feature.sequence < 0) return step;
  const SequenceSpec& sequence = layout.sequences[static_cast<size_t>(feature.sequence)];
  step.sequence_rule.max_length = sequence.max_length;
  step.sequence_rule.has_element =
      !encoded || feature.settings.fg_encoded_default_value.value_or("") != "";
  return step;
}

void FeatureTransform::add_absent(const FeatureSpec& feature) {
  if (!feature.inputs.empty() || feature.is_intermediate) return;
  if (feature.kind == FeatureKind::kSparse)
    absent_.push_back(static_cast<size_t>(feature.sparse_index));
  else
    has_absent_numbers_ = true;
}

ColumnType FeatureTransform::type_of(const Step& step,
                                     const std::vector<ColumnSpec>& columns) const {
  if (step.operation != nullptr) return step.operation->output();
  const Source& source = step.sources[0];
  if (source.kind == FeatureInput::Source::kColumn) return columns[source.at].type;
  return steps_[source.at].type;  // steps are made in the order of reading
}

// One number per row, as nearly all have: read in tiles.
bool FeatureTransform::is_plain_number(const Step& step) const {
  return step.numbers && !step.boundaries && step.operation == nullptr &&
         step.numbers->is_one_number() && step.sources[0].kind == FeatureInput::Source::kColumn;
}

// Features with keys are read last, so the last one to read a column may take its keys instead of
// copying them.
void FeatureTransform::choose_takers(size_t columns) {
  std::stable_partition(others_.begin(), others_.end(),
                        [&](size_t at) { return !steps_[at].keys.has_value(); });
  std::vector<Step*> takers(columns, nullptr);
  for (const size_t at : others_) {
    Step& step = steps_[at];
    if (step.keys && step.operation == nullptr &&
        step.sources[0].kind == FeatureInput::Source::kColumn)
      takers[step.sources[0].at] = &step;
  }
  for (Step* step : takers)
    if (step != nullptr) step->take = KeyRule::Take::kColumn;
}

FeatureCounts FeatureTransform::apply(DecodedPiece& piece, Batch& out) const {
  RowMarks marks(piece);
  const ReportRow report = [&](int64_t row, std::string message) {
    marks.add(row, [&] { return std::move(message); });
  };
  Run run{piece, out, marks, report, {}};
  const int64_t rows = piece.block.rows;
  out.rows = rows;
  out.bad.clear();
  out.kept.clear();
  out.resize_sparse(sparse_count_);
  out.resize_sequences(sequences_.size());
  for (size_t i = 0; i < sparse_count_; ++i) out.sparse[i].sequence = sequence_of_sparse_[i];
  for (Column& column : piece.block.columns) mark_missing_numbers(column);
  labels_.read(piece.block, out, marks, run.counts);
  compute_columns(run);
  out.dense.resize(static_cast<size_t>(rows * dense_cols_));
  if (has_absent_numbers_) std::fill(out.dense.begin(), out.dense.end(), 0.0f);
  read_plain_numbers(run);
  for (size_t s = 0; s < sequences_.size(); ++s) read_sequence(s, run);
  add_empty_bags(out);
  for (const size_t at : others_)
    read_feature(steps_[at], BagView(value_of(steps_[at], piece), rows), run);
  if (bad_rows_ == BadRowHandling::kSkip) {
    marks.drop_rows(out);
  } else {
    marks.blank_rows(blank_row(out.memory()), out);
    std::swap(out.kept, piece.kept);
  }
  return run.counts;
}

// A bag for each row, or each element of its sequence, of every feature without inputs.
void FeatureTransform::add_empty_bags(Batch& out) const {
  for (const size_t i : absent_) {
    const int32_t sequence = sequence_of_sparse_[i];
    const int64_t bags =
        sequence < 0 ? out.rows : out.sequences[static_cast<size_t>(sequence)].elements();
    out.sparse[i].keys.clear();
    out.sparse[i].weights.clear();
    out.sparse[i].offsets.assign(static_cast<size_t>(bags) + 1, 0);
  }
}

// The value before it is normalized and becomes keys.
Column& FeatureTransform::value_of(const Step& step, DecodedPiece& piece) const {
  const auto at = static_cast<size_t>(&step - steps_.data());
  if (step.operation != nullptr) return piece.computed[at];
  const Source& source = step.sources[0];
  if (source.kind == FeatureInput::Source::kColumn) return piece.block.columns[source.at];
  return piece.computed[steps_.size() + source.at];
}

// What other features read of it: normalized numbers, the buckets of boundaries, or texts.
const Column& FeatureTransform::value_for_readers(const Step& step, DecodedPiece& piece) const {
  const auto at = static_cast<size_t>(&step - steps_.data());
  return piece.computed[steps_.size() + at];
}

void FeatureTransform::compute_columns(Run& run) const {
  const bool any = std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.operation != nullptr || step.is_read;
  });
  if (!any) return;
  DecodedPiece& piece = run.piece;
  piece.computed.resize(2 * steps_.size());
  std::vector<const Column*> inputs;
  for (const size_t at : order_) {
    const Step& step = steps_[at];
    inputs.clear();
    for (const Source& source : step.sources) {
      const bool is_column = source.kind == FeatureInput::Source::kColumn;
      const bool is_feature = source.kind == FeatureInput::Source::kFeature;
      inputs.push_back(is_column    ? &piece.block.columns[source.at]
                       : is_feature ? &value_for_readers(steps_[source.at], piece)
                                    : nullptr);
    }
    if (step.operation != nullptr) {
      step.operation->apply(inputs, piece.block.rows, piece.computed[at], run.report);
      mark_missing_numbers(piece.computed[at]);
    }
    if (!step.is_read) continue;
    Column& read = piece.computed[steps_.size() + at];
    if (step.boundaries) {
      read_buckets(step, run, read);
      continue;
    }
    read = value_of(step, piece);
    expand_codes(read);
    if (step.numbers && read.type == ColumnType::kFloat)
      step.numbers->normalize(read.floats.data(), static_cast<int64_t>(read.floats.size()),
                              run.counts);
  }
}

// The numbers of the buckets of a feature with boundaries.
void FeatureTransform::read_buckets(const Step& step, Run& run, Column& out) const {
  const Column& values = value_of(step, run.piece);
  const int64_t rows = run.piece.block.rows;
  SparseColumn buckets;
  if (values.sequence_offsets.empty()) {
    step.numbers->bucketize(values, BagView(values, rows), *step.boundaries, buckets, run.report,
                            run.counts);
  } else {
    SequenceBags bags;
    find_elements(values, rows, {}, nullptr, bags);
    step.numbers->bucketize(values, bags.view(), *step.boundaries, buckets, run.report, run.counts);
  }
  out = {};
  out.type = ColumnType::kInt64;
  out.ints = std::move(buckets.keys);
  out.offsets = std::move(buckets.offsets);
  out.sequence_offsets = values.sequence_offsets;
}

void FeatureTransform::read_plain_numbers(Run& run) const {
  const int64_t rows = run.out.rows;
  float tile[kTileRows];
  for (int64_t begin = 0; begin < rows; begin += kTileRows) {
    const int64_t count = std::min(kTileRows, rows - begin);
    for (const size_t at : plain_numbers_) {
      const Step& step = steps_[at];
      copy_numbers(run.piece.block.columns[step.sources[0].at], begin, count, tile);
      step.numbers->normalize(tile, count, run.counts);
      float* to = run.out.dense.data() + begin * dense_cols_ + step.dense_begin;
      bool are_finite = true;
      for (int64_t i = 0; i < count; ++i) {
        to[i * dense_cols_] = tile[i];
        are_finite &= std::isfinite(tile[i]);
      }
      if (!are_finite) mark_odd_numbers(step, begin, begin + count, run);
    }
  }
}

// Missing without a default, or infinite: other rows of the batch would be lost with them.
void FeatureTransform::mark_odd_numbers(const Step& step, int64_t begin, int64_t end,
                                        Run& run) const {
  for (int64_t row = begin; row < end; ++row) {
    const float value = run.out.dense[static_cast<size_t>(row * dense_cols_ + step.dense_begin)];
    if (!std::isfinite(value)) run.marks.add(row, [&] { return step.numbers->problem_of(value); });
  }
}

void FeatureTransform::read_feature(const Step& step, const BagView& bags, Run& run) const {
  Column& column = value_of(step, run.piece);
  if (step.keys) {
    step.keys->apply(column, bags, step.take, run.out.sparse[step.sparse_index], run.report,
                     run.counts);
  } else if (step.boundaries) {
    step.numbers->bucketize(column, bags, *step.boundaries, run.out.sparse[step.sparse_index],
                            run.report, run.counts);
  } else if (step.sequence < 0) {
    step.numbers->read(column, bags, dense_cols_, run.out.dense.data() + step.dense_begin,
                       run.report, run.counts);
  } else {
    const auto s = static_cast<size_t>(step.sequence);
    step.numbers->read(column, bags, sequence_widths_[s],
                       run.out.sequences[s].numbers.data() + step.dense_begin, run.report,
                       run.counts);
  }
}

void FeatureTransform::read_sequence(size_t sequence, Run& run) const {
  SequenceColumn& out = run.out.sequences[sequence];
  if (sequences_[sequence].empty()) {  // nothing reads it
    out.offsets.assign(static_cast<size_t>(run.out.rows) + 1, 0);
    out.numbers.clear();
    return;
  }
  std::vector<int32_t> lengths;
  SequenceBags bags;
  for (const size_t at : sequences_[sequence]) {
    const Step& step = steps_[at];
    const bool is_first = at == sequences_[sequence].front();
    find_elements(value_of(step, run.piece), run.out.rows, step.sequence_rule,
                  is_first ? nullptr : &lengths, bags);
    run.counts.cut_sequences += bags.cut;
    run.counts.fitted_sequences += bags.fitted;
    if (is_first) {
      lengths = bags.offsets;
      out.offsets.assign(lengths.begin(), lengths.end());
      out.numbers.resize(bags.begins.size() * static_cast<size_t>(sequence_widths_[sequence]));
      if (has_absent_numbers_) std::fill(out.numbers.begin(), out.numbers.end(), 0.0f);
    }
    read_feature(step, bags.view(), run);
  }
}

// A row without keys and elements, and with labels, weights and numbers 0.
Batch FeatureTransform::blank_row(std::pmr::memory_resource* memory) const {
  Batch blank = batch_in(memory);
  blank.rows = 1;
  blank.bad.assign(1, 1);
  blank.labels.assign(labels_.label_count(), 0.0f);
  blank.sample_weights.assign(labels_.weight_count(), 0.0f);
  blank.dense.assign(static_cast<size_t>(dense_cols_), 0.0f);
  blank.resize_sequences(sequences_.size());
  for (SequenceColumn& sequence : blank.sequences) sequence.offsets.assign(2, 0);
  blank.resize_sparse(sparse_count_);
  for (size_t i = 0; i < sparse_count_; ++i) {
    blank.sparse[i].sequence = sequence_of_sparse_[i];
    if (sequence_of_sparse_[i] < 0) blank.sparse[i].offsets.assign(2, 0);
  }
  return blank;
}

}  // namespace emblem
