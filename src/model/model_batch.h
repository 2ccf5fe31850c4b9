// model/model_batch.h - a batch as a model sees it.
#pragma once

#include <span>

#include "core/memory/view.h"
#include "embedding/lookup.h"

namespace emblem {

// The elements of a sequence: row r has [offsets[r], offsets[r + 1]).
struct SequenceView {
  int64_t elements = 0;
  View<const int32_t> offsets;  // [rows + 1]
  View<const float> numbers;    // [elements, numeric columns]
};

// The memory is the caller's, on the model's device, and must outlive backward.
struct ModelBatch {
  int64_t rows = 0;
  View<const float> dense;                  // [rows, dense columns]
  View<const float> labels;                 // [rows, labels]; empty: the loss means nothing
  View<const float> weights;                // [rows, weight fields] or empty
  std::span<const FeatureKeys> sparse;      // by FeatureSpec::sparse_index
  std::span<const SequenceView> sequences;  // by FeatureSpec::sequence
  View<const float> candidate_logs;         // [items, 1] or empty, as in a Batch
  View<const int64_t> candidate_of;
};

}  // namespace emblem
