#include "model/lookup/batch_piece.h"

#include "emblem/error.h"

namespace emblem {
namespace {

// Offsets of bags [begin, begin + bags), from 0.
View<const int32_t> offsets_of(View<const int32_t> all, int64_t begin, int64_t bags,
                               HostVector<int32_t>& memory) {
  const int32_t* from = all.data + begin;
  memory.resize(static_cast<size_t>(bags + 1));
  for (int64_t bag = 0; bag <= bags; ++bag) memory[static_cast<size_t>(bag)] = from[bag] - from[0];
  return {memory.data(), bags + 1, 1};
}

FeatureKeys bags_from(const FeatureKeys& all, int64_t begin, int64_t bags,
                      HostVector<int32_t>& memory) {
  FeatureKeys piece;
  int64_t first = begin, count = bags;
  if (all.offsets.size() > 0) {
    first = all.offsets.data[begin];
    count = all.offsets.data[begin + bags] - first;
    piece.offsets = offsets_of(all.offsets, begin, bags, memory);
  }
  piece.keys = {all.keys.data + first, count, 1};
  if (all.weights.size() > 0) piece.weights = {all.weights.data + first, count, 1};
  return piece;
}

}  // namespace

const ModelBatch& BatchPiece::cut(const ModelBatch& batch, int64_t begin, int64_t rows) {
  EMBLEM_REQUIRE(batch.sparse.size() == sequence_of_feature_.size(), "a batch has ",
                 batch.sparse.size(), " features with keys, but the model has ",
                 sequence_of_feature_.size());
  key_offsets_.resize(batch.sparse.size());
  sequence_offsets_.resize(batch.sequences.size());
  sequences_.clear();
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const SequenceView& all = batch.sequences[s];
    const int64_t first = all.offsets.data[begin];
    SequenceView& piece = sequences_.emplace_back();
    piece.elements = all.offsets.data[begin + rows] - first;
    piece.offsets = offsets_of(all.offsets, begin, rows, sequence_offsets_[s]);
    piece.numbers = {all.numbers.data + first * all.numbers.cols, piece.elements, all.numbers.cols};
  }
  keys_.clear();
  for (size_t f = 0; f < batch.sparse.size(); ++f) {
    const int64_t sequence = sequence_of_feature_[f];
    const bool by_rows = sequence < 0;
    keys_.push_back(bags_from(
        batch.sparse[f],
        by_rows ? begin : batch.sequences[static_cast<size_t>(sequence)].offsets.data[begin],
        by_rows ? rows : sequences_[static_cast<size_t>(sequence)].elements, key_offsets_[f]));
  }
  piece_ = {.rows = rows, .sparse = keys_, .sequences = sequences_};
  piece_.dense = {batch.dense.data + begin * batch.dense.cols, rows, batch.dense.cols};
  return piece_;
}

}  // namespace emblem
