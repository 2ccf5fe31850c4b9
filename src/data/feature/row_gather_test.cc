// Rows gathered from batches with every kind of column, against an oracle that moves one value at a
// time.
#include "data/feature/row_gather.h"

#include <gmock/gmock.h>

#include "data/test_data.h"

namespace emblem {
namespace {

struct Shape {
  int64_t labels = 2, weights = 1, dense_cols = 3;
  std::vector<int64_t> numbers = {2, 0};                 // by sequence: its width
  std::vector<int32_t> sequence_of = {-1, 0, 1, -1, 0};  // by sparse column
};

// What one bag holds.
struct Bag {
  std::vector<int64_t> keys;
  std::vector<float> weights;
};

Bag bag_of(const SparseColumn& column, int64_t at) {
  const bool plain = column.offsets.empty();
  Bag bag;
  for (int64_t k = plain ? at : column.offsets[at]; k < (plain ? at + 1 : column.offsets[at + 1]);
       ++k) {
    bag.keys.push_back(column.keys[k]);
    bag.weights.push_back(column.weights.empty() ? 1.0f : column.weights[k]);
  }
  return bag;
}

// A row as text, so that rows of different batches compare.
std::string row_text(const Batch& batch, const Shape& shape, int64_t row) {
  std::ostringstream out;
  for (int64_t i = 0; i < shape.dense_cols; ++i)
    out << batch.dense[row * shape.dense_cols + i] << ' ';
  for (int64_t i = 0; i < shape.labels; ++i) out << batch.labels[row * shape.labels + i] << ' ';
  for (int64_t i = 0; i < shape.weights; ++i)
    out << batch.sample_weights[row * shape.weights + i] << ' ';
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const SequenceColumn& sequence = batch.sequences[s];
    out << "| ";
    for (int64_t e = sequence.offsets[row]; e < sequence.offsets[row + 1]; ++e) {
      for (int64_t i = 0; i < shape.numbers[s]; ++i)
        out << sequence.numbers[e * shape.numbers[s] + i] << ' ';
      out << "; ";
    }
  }
  for (const SparseColumn& column : batch.sparse) {
    int64_t begin = row, end = row + 1;
    if (column.sequence >= 0) {
      const HostVector<int32_t>& offsets = batch.sequences[column.sequence].offsets;
      begin = offsets[row];
      end = offsets[row + 1];
    }
    out << "/ ";
    for (int64_t at = begin; at < end; ++at) {
      const Bag bag = bag_of(column, at);
      for (size_t k = 0; k < bag.keys.size(); ++k)
        out << bag.keys[k] << ':' << bag.weights[k] << ' ';
      out << ", ";
    }
  }
  out << (batch.bad.empty() ? 0 : batch.bad[row]);
  return out.str();
}

enum class Bags { kPlain, kOffsets, kWeighted };

void fill_bags(Random& random, int64_t bags, Bags kind, SparseColumn& column) {
  if (kind != Bags::kPlain) column.offsets.push_back(0);
  for (int64_t i = 0; i < bags; ++i) {
    const uint64_t keys = kind == Bags::kPlain ? 1 : random.below(4);
    for (uint64_t k = 0; k < keys; ++k) {
      column.keys.push_back(static_cast<int64_t>(random.below(1000)));
      if (kind == Bags::kWeighted) column.weights.push_back(random.uniform());
    }
    if (kind != Bags::kPlain) column.offsets.push_back(static_cast<int32_t>(column.keys.size()));
  }
}

Batch random_batch(Random& random, const Shape& shape) {
  Batch batch;
  batch.rows = static_cast<int64_t>(random.below(7));
  const auto fill = [&](HostVector<float>& values, int64_t width) {
    for (int64_t i = 0; i < batch.rows * width; ++i) values.push_back(random.uniform());
  };
  fill(batch.dense, shape.dense_cols);
  fill(batch.labels, shape.labels);
  fill(batch.sample_weights, shape.weights);
  if (random.below(2) == 0)
    for (int64_t row = 0; row < batch.rows; ++row) batch.bad.push_back(random.below(2) == 0);
  for (const int64_t width : shape.numbers) {
    SequenceColumn& sequence = batch.sequences.emplace_back();
    sequence.offsets.push_back(0);
    for (int64_t row = 0; row < batch.rows; ++row)
      sequence.offsets.push_back(sequence.offsets.back() + static_cast<int32_t>(random.below(4)));
    for (int64_t i = 0; i < sequence.elements() * width; ++i)
      sequence.numbers.push_back(random.uniform());
  }
  for (const int32_t s : shape.sequence_of) {
    SparseColumn& column = batch.sparse.emplace_back();
    column.sequence = s;
    fill_bags(random, s < 0 ? batch.rows : batch.sequences[s].elements(),
              static_cast<Bags>(random.below(3)), column);
  }
  return batch;
}

TEST(RowGather, RowsKeepAllTheirColumns) {
  const Shape shape;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random{seed, 3};
    std::vector<Batch> batches;
    for (uint64_t i = 0; i < 1 + random.below(4); ++i)
      batches.push_back(random_batch(random, shape));
    std::vector<const Batch*> sources;
    for (const Batch& batch : batches) sources.push_back(&batch);
    std::vector<RowRun> runs;
    std::vector<std::string> expected;
    const bool single_rows = random.below(2) == 0;
    for (uint64_t i = 0; i < random.below(12); ++i) {
      const auto source = static_cast<uint32_t>(random.below(sources.size()));
      const auto rows = static_cast<uint64_t>(sources[source]->rows);
      if (rows == 0) continue;
      const auto begin = static_cast<uint32_t>(random.below(rows));
      const auto count = single_rows ? 1 : static_cast<uint32_t>(1 + random.below(rows - begin));
      runs.push_back({source, begin, count});
      for (uint32_t row = begin; row < begin + count; ++row)
        expected.push_back(row_text(*sources[source], shape, row));
    }
    Batch out = random_batch(random, shape);  // its contents are overwritten
    gather_rows(sources, runs, out);
    ASSERT_EQ(out.rows, static_cast<int64_t>(expected.size()));
    for (int64_t row = 0; row < out.rows; ++row)
      EXPECT_EQ(row_text(out, shape, row), expected[static_cast<size_t>(row)]);
    for (size_t s = 0; s < shape.numbers.size(); ++s) {
      const SequenceColumn& sequence = out.sequences[s];
      EXPECT_EQ(static_cast<int64_t>(sequence.numbers.size()),
                sequence.elements() * shape.numbers[s]);
    }
    for (size_t c = 0; c < shape.sequence_of.size(); ++c)
      EXPECT_EQ(out.sparse[c].sequence, shape.sequence_of[c]);
  }
}

TEST(RowGather, ColumnsOfSequencesTakeTheBatchsMemory) {
  std::pmr::monotonic_buffer_resource memory;
  const Shape shape;
  Random random{5, 5};
  const Batch batch = random_batch(random, shape);
  Batch out = batch_in(&memory);
  gather_rows(std::vector<const Batch*>{&batch},
              std::vector<RowRun>{{0, 0, static_cast<uint32_t>(batch.rows)}}, out);
  for (const SequenceColumn& sequence : out.sequences) {
    EXPECT_EQ(sequence.offsets.get_allocator().memory, &memory);
    EXPECT_EQ(sequence.numbers.get_allocator().memory, &memory);
  }
}

}  // namespace
}  // namespace emblem
