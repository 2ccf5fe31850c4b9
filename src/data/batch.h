// data/batch.h - a training batch. Laid out by config/feature/features.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory/host_vector.h"

namespace emblem {

// One sparse feature: a bag of keys per row or, of a feature of a sequence, per element. Row r's
// keys are keys[offsets[r], offsets[r + 1]), or keys[r] alone when `offsets` is empty. `weights` is
// empty (all 1) or has one entry per key.
struct SparseColumn {
  HostVector<int64_t> keys{};
  HostVector<int32_t> offsets{};
  HostVector<float> weights{};
  // The one of Batch::sequences whose elements have the bags; -1: rows have them.
  int32_t sequence = -1;
};

// The first key of bag `bag`; -1 where it has none.
inline int64_t first_key(const SparseColumn& column, size_t bag) {
  if (column.offsets.empty()) return column.keys[bag];
  const auto begin = static_cast<size_t>(column.offsets[bag]);
  return column.offsets[bag] < column.offsets[bag + 1] ? column.keys[begin] : -1;
}

// What the features of a sequence have in common. Their keys are in Batch::sparse.
struct SequenceColumn {
  HostVector<int32_t> offsets{};  // [rows + 1]: row r's elements are [offsets[r], offsets[r + 1])
  HostVector<float> numbers{};    // [elements, SequenceSpec::dense_cols]

  int64_t elements() const { return offsets.empty() ? 0 : offsets.back(); }
};

// A text per row, one after the other.
struct TextColumn {
  std::string text;
  std::vector<size_t> ends;  // row r's text is text[ends[r - 1], ends[r])

  size_t rows() const { return ends.size(); }
  std::string_view operator[](size_t row) const {
    const size_t begin = row == 0 ? 0 : ends[row - 1];
    return std::string_view(text).substr(begin, ends[row] - begin);
  }
  void append(std::string_view row) {
    text += row;
    ends.push_back(text.size());
  }
  void clear() {
    text.clear();
    ends.clear();
  }
};

// Where reading continues in a partition of a stream.
struct StreamPosition {
  int32_t partition = 0;
  int64_t offset = 0;  // offset of the message with the next row
  int64_t row = 0;     // rows of that message that were given out

  bool operator==(const StreamPosition&) const = default;
};

// Where reading continues after a batch. Opaque to all but the loader; saved in checkpoints.
struct DataPosition {
  int64_t epoch = 0;                   // from 0
  int64_t piece = 0;                   // index in this epoch's order of pieces
  int64_t row = 0;                     // rows of that piece before the current shuffle window
  int64_t emitted = 0;                 // rows already given out of the current shuffle window
  int64_t rows_in_epoch = 0;           // rows given out in this epoch so far
  std::vector<StreamPosition> stream;  // positions of every partition, by number; empty for files

  bool operator==(const DataPosition&) const = default;
};

// Rows that follow each other in the data set.
struct StoredRows {
  int64_t run = 0;  // counts parts of the data set in its order
  int64_t rows = 0;

  bool operator==(const StoredRows&) const = default;
};

struct Batch {
  int64_t rows = 0;
  HostVector<float> dense;           // [rows, dense_cols]
  HostVector<float> labels;          // [rows, FeatureLayout::labels]; empty when they are not read
  HostVector<float> sample_weights;  // [rows, FeatureLayout::weight_fields] or empty
  std::vector<SparseColumn> sparse;  // by FeatureSpec::sparse_index
  std::vector<SequenceColumn> sequences;  // by FeatureSpec::sequence
  // Of the items of a matching model, where its layout asks for them; else empty.
  HostVector<float> candidate_logs;  // the logarithm of how often an item is a candidate by chance
  HostVector<int64_t> candidate_of;  // the row that an item is a candidate of; -1: of all rows
  std::vector<uint8_t> bad;          // [rows], 1 where a row has no values because it was
                                     // unreadable; empty when none was (BadRowHandling::kBlank)
  TextColumn kept;                   // [rows] as LoaderOptions::keep asks, or empty
  // Where its rows are in the data set, for one of several streams that are not shuffled; else
  // empty. A stream has whole runs, in their order.
  std::vector<StoredRows> stored;
  DataPosition next;  // the position after this batch
  bool last_in_epoch = false;
  int64_t unix_ms = 0;  // for a stream: the newest time of a message that its rows are from

  // Where its columns take their memory from; null: the heap.
  std::pmr::memory_resource* memory() const { return labels.get_allocator().memory; }

  // Columns that are new take their memory from there too.
  void resize_sparse(size_t columns) {
    if (sparse.size() > columns) sparse.resize(columns);
    while (sparse.size() < columns)
      sparse.push_back({new_vector<int64_t>(), new_vector<int32_t>(), new_vector<float>()});
  }
  void resize_sequences(size_t columns) {
    if (sequences.size() > columns) sequences.resize(columns);
    while (sequences.size() < columns)
      sequences.push_back({new_vector<int32_t>(), new_vector<float>()});
  }

 private:
  template <class T>
  HostVector<T> new_vector() const {
    return HostVector<T>(typename HostVector<T>::allocator_type(memory()));
  }
};

// A batch without rows, its columns in `memory`, which outlives it.
inline Batch batch_in(std::pmr::memory_resource* memory) {
  const HostVector<float>::allocator_type floats(memory);
  Batch batch;
  batch.dense = HostVector<float>(floats);
  batch.labels = HostVector<float>(floats);
  batch.sample_weights = HostVector<float>(floats);
  batch.candidate_logs = HostVector<float>(floats);
  batch.candidate_of = HostVector<int64_t>(HostVector<int64_t>::allocator_type(memory));
  return batch;
}

}  // namespace emblem
