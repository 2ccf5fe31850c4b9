#include "data/row_gather.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace emblem {
namespace {

// Rows of `width` floats.
template <class Of>
void gather_matrix(std::span<const Batch* const> sources, std::span<const RowRun> runs, size_t width,
                   Of of, float* to) {
  if (width == 0) return;
  std::vector<const float*> from(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) from[i] = of(*sources[i]).data();
  for (const RowRun& run : runs) {
    const size_t floats = run.count * width;
    std::memcpy(to, from[run.source] + run.begin * width, floats * sizeof(float));
    to += floats;
  }
}

template <class Of>
size_t width_of(std::span<const Batch* const> sources, Of of) {
  for (const Batch* source : sources) {
    if (source->rows > 0) return of(*source).size() / static_cast<size_t>(source->rows);
  }
  return 0;
}

void gather_single_keys(std::span<const Batch* const> sources, std::span<const RowRun> runs, size_t c,
                        int64_t* to) {
  std::vector<const int64_t*> from(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) from[i] = sources[i]->sparse[c].keys.data();
  for (const RowRun& run : runs) {
    const int64_t* keys = from[run.source] + run.begin;
    if (run.count == 1) {
      *to++ = *keys;
    } else {
      std::memcpy(to, keys, run.count * sizeof(int64_t));
      to += run.count;
    }
  }
}

void append_bag(const SparseColumn& from, uint32_t row, bool weighted, SparseColumn& to) {
  const bool plain = from.offsets.empty();
  const size_t begin = plain ? row : static_cast<size_t>(from.offsets[row]);
  const size_t end = plain ? row + size_t{1} : static_cast<size_t>(from.offsets[row + 1]);
  to.keys.insert(to.keys.end(), from.keys.begin() + begin, from.keys.begin() + end);
  if (weighted && from.weights.empty()) {
    to.weights.insert(to.weights.end(), end - begin, 1.0f);
  } else if (weighted) {
    to.weights.insert(to.weights.end(), from.weights.begin() + begin, from.weights.begin() + end);
  }
  to.offsets.push_back(static_cast<int32_t>(to.keys.size()));
}

void gather_bags(std::span<const Batch* const> sources, std::span<const RowRun> runs, size_t c,
                 bool weighted, SparseColumn& to) {
  to.keys.clear();
  to.weights.clear();
  to.offsets.assign(1, 0);
  for (const RowRun& run : runs) {
    for (uint32_t row = run.begin; row < run.begin + run.count; ++row) {
      append_bag(sources[run.source]->sparse[c], row, weighted, to);
    }
  }
  drop_plain_offsets(to);
}

}  // namespace

void drop_plain_offsets(SparseColumn& column) {
  for (size_t row = 0; row < column.offsets.size(); ++row) {
    if (column.offsets[row] != static_cast<int32_t>(row)) return;
  }
  column.offsets.clear();
}

void gather_rows(std::span<const Batch* const> sources, std::span<const RowRun> runs, Batch& out) {
  int64_t rows = 0;
  for (const RowRun& run : runs) rows += run.count;
  out.rows = rows;
  const auto gather = [&](auto of) {
    const size_t width = width_of(sources, of);
    of(out).resize(width * static_cast<size_t>(rows));
    gather_matrix(sources, runs, width, of, of(out).data());
  };
  gather([](auto& batch) -> auto& { return batch.dense; });
  gather([](auto& batch) -> auto& { return batch.labels; });
  gather([](auto& batch) -> auto& { return batch.sample_weights; });

  out.sparse.resize(sources.empty() ? 0 : sources[0]->sparse.size());
  for (size_t c = 0; c < out.sparse.size(); ++c) {
    SparseColumn& to = out.sparse[c];
    bool bags = false, weighted = false;
    for (const Batch* source : sources) {
      bags = bags || !source->sparse[c].offsets.empty();
      weighted = weighted || !source->sparse[c].weights.empty();
    }
    if (bags || weighted) {
      gather_bags(sources, runs, c, weighted, to);
      continue;
    }
    to.offsets.clear();
    to.weights.clear();
    to.keys.resize(static_cast<size_t>(rows));
    gather_single_keys(sources, runs, c, to.keys.data());
  }
}

}  // namespace emblem
