// A model out of a pipeline's text, with batches of random values that fit it, for tests.
#pragma once

#include <memory>
#include <string>

#include "config/feature/items.h"
#include "config/load/load.h"
#include "core/math/random.h"
#include "data/batch.h"
#include "model/check/check.h"
#include "model/lookup/batch_piece.h"
#include "model/lookup/batch_view.h"
#include "model/model.h"

namespace emblem {

inline constexpr int32_t kSampledItems = 5;  // of a batch, where the layout has items

struct SmallBatchShape {
  int64_t rows = 8;
  int64_t most_elements = 5;  // elements of a row of a sequence
  int64_t fewest_elements = 0;
  int64_t most_keys = 1;  // keys of a row of a feature; more than 1: also none
};

// Labels follow from the first key of the first sparse feature, so that they can be learned.
inline Batch random_batch(const FeatureLayout& layout, const SmallBatchShape& shape,
                          uint64_t seed) {
  Random random{.seed = seed};
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(bound)));
  };
  Batch batch;
  batch.rows = shape.rows;
  batch.dense.resize(static_cast<size_t>(shape.rows * layout.dense_cols));
  for (float& value : batch.dense) value = random.uniform() - 0.5f;
  batch.sequences.resize(layout.sequences.size());
  for (size_t s = 0; s < layout.sequences.size(); ++s) {
    SequenceColumn& column = batch.sequences[s];
    column.offsets.push_back(0);
    const bool is_of_items = static_cast<int64_t>(s) == items_in(layout);
    for (int64_t row = 0; row < shape.rows; ++row)
      column.offsets.push_back(
          column.offsets.back() +
          static_cast<int32_t>(is_of_items
                                   ? 1
                                   : shape.fewest_elements +
                                         below(shape.most_elements - shape.fewest_elements + 1)));
    if (is_of_items) column.offsets.back() += kSampledItems;
    column.numbers.resize(static_cast<size_t>(column.elements() * layout.sequences[s].dense_cols));
    for (float& value : column.numbers) value = random.uniform() - 0.5f;
  }
  batch.resize_sparse(static_cast<size_t>(layout.sparse_count));
  for (const FeatureSpec& feature : layout.features) {
    if (feature.kind != FeatureKind::kSparse) continue;
    SparseColumn& column = batch.sparse[static_cast<size_t>(feature.sparse_index)];
    const int64_t bags = feature.sequence < 0
                             ? shape.rows
                             : batch.sequences[static_cast<size_t>(feature.sequence)].elements();
    const bool several = shape.most_keys > 1 && feature.sequence < 0;
    if (several) column.offsets.push_back(0);
    for (int64_t bag = 0; bag < bags; ++bag) {
      const int64_t keys = several ? below(shape.most_keys + 1) : 1;
      for (int64_t k = 0; k < keys; ++k) column.keys.push_back(below(table_rows(feature)));
      if (several) column.offsets.push_back(static_cast<int32_t>(column.keys.size()));
    }
  }
  if (layout.candidates.have_frequency || layout.candidates.are_of_single_rows) {
    const int64_t items = items_in(layout);
    const int64_t count =
        items < 0 ? shape.rows : batch.sequences[static_cast<size_t>(items)].elements();
    for (int64_t i = 0; i < count; ++i) {
      batch.candidate_logs.push_back(random.uniform() - 2.0f);
      // Two hard negatives of the last row.
      batch.candidate_of.push_back(i < count - 2 ? -1 : shape.rows - 1);
    }
  }
  const SparseColumn* first = batch.sparse.empty() ? nullptr : &batch.sparse[0];
  for (int64_t row = 0; row < shape.rows; ++row) {
    const bool has_key = first != nullptr &&
                         (first->offsets.empty() || first->offsets[row] < first->offsets[row + 1]);
    const int64_t key =
        !has_key ? row : first->keys[first->offsets.empty() ? row : first->offsets[row]];
    for (size_t l = 0; l < layout.labels.size(); ++l)
      batch.labels.push_back(static_cast<float>((key + static_cast<int64_t>(l)) % 2));
    for (size_t w = 0; w < layout.weight_fields.size(); ++w)
      batch.sample_weights.push_back(0.5f + random.uniform());
  }
  return batch;
}

struct SmallModel {
  explicit SmallModel(const std::string& pipeline, int64_t max_rows = 64)
      : config(parse_pipeline(pipeline, "test.config")), layout(layout_of(config)) {
    check_pipeline(config);
    model = std::make_unique<Model>(context, config, layout, max_rows);
  }

  Batch batch(const SmallBatchShape& shape = {}, uint64_t seed = 1) const {
    return random_batch(layout, shape, seed);
  }
  void forward(const Batch& batch, Phase phase = Phase::kEval, uint64_t draw = 0) {
    model->forward(context, view.set(batch), phase, draw);
  }
  void forward_rows(const Batch& batch, int64_t begin, int64_t rows) {
    BatchPiece piece(model->sequence_of_feature());
    model->forward(context, piece.cut(view.set(batch), begin, rows), Phase::kEval, 0);
  }
  // One step of SGD; the loss before it.
  double step(const Batch& batch, float rate, int64_t number) {
    forward(batch, Phase::kTrain, static_cast<uint64_t>(number));
    const double loss = model->loss(context);
    model->backward(context);
    model->update_embeddings(context, 1.0f, rate, number);
    const View<float> parameters = model->graph().parameters();
    const View<float> gradients = model->graph().parameter_gradients();
    for (int64_t i = 0; i < parameters.size(); ++i) parameters.data[i] -= rate * gradients.data[i];
    return loss;
  }
  std::vector<float> logits(size_t head = 0) {
    const View<const float> view = model->logits(head);
    return {view.data, view.data + view.size()};
  }
  int64_t dense_parameters() const {
    int64_t count = 0;
    for (const Parameter& each : model->graph().parameter_list()) count += each.rows * each.cols;
    return count;
  }

  Context context;
  config::PipelineConfig config;
  FeatureLayout layout;
  std::unique_ptr<Model> model;
  BatchView view;
};

}  // namespace emblem
