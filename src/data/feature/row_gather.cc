#include "data/feature/row_gather.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "data/format/text/csv_types.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// `count` rows from `from` on of one source become those from `to` on of the result.
struct Move {
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t count = 0;
};

// The runs grouped by source. A shuffled batch takes single rows in turns from many sources; read
// in that order, their memory comes from too many places at once for the caches and their
// prefetchers. So each source is read on its own and forwards, and the writes jump instead, within
// one small column.
class MovePlan {
 public:
  MovePlan(std::span<const RowRun> runs, size_t sources) : begins_(sources + 1, 0) {
    for (const RowRun& run : runs) ++begins_[run.source + 1];
    for (size_t i = 0; i < sources; ++i) begins_[i + 1] += begins_[i];
    moves_.resize(runs.size());
    std::vector<size_t> next(begins_.begin(), begins_.end() - 1);
    for (const RowRun& run : runs) {
      moves_[next[run.source]++] = {run.begin, static_cast<uint32_t>(rows_), run.count};
      rows_ += run.count;
    }
    single_rows_ = static_cast<size_t>(rows_) == runs.size();
  }

  std::span<const Move> of(size_t source) const {
    return {moves_.data() + begins_[source], begins_[source + 1] - begins_[source]};
  }
  int64_t rows() const { return rows_; }
  bool single_rows() const { return single_rows_; }

  // The moves of the elements that the rows of sequence `s` have: those of neighbouring rows follow
  // each other. `offsets` is that of the result.
  MovePlan of_elements(std::span<const Batch* const> sources, size_t s,
                       const HostVector<int32_t>& offsets) const {
    MovePlan plan;
    plan.begins_ = begins_;
    plan.moves_.reserve(moves_.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      const HostVector<int32_t>& from = sources[i]->sequences[s].offsets;
      for (const Move& move : of(i)) {
        const auto begin = static_cast<uint32_t>(from[move.from]);
        const auto end = static_cast<uint32_t>(from[move.from + move.count]);
        plan.moves_.push_back({begin, static_cast<uint32_t>(offsets[move.to]), end - begin});
      }
    }
    plan.rows_ = offsets.back();
    return plan;
  }

 private:
  MovePlan() = default;

  std::vector<size_t> begins_;
  std::vector<Move> moves_;
  int64_t rows_ = 0;
  bool single_rows_ = false;
};

// `rows_of` gives the rows of the matrix that `of` gives.
template <class Of, class RowsOf>
void gather_matrix(std::span<const Batch* const> sources, const MovePlan& plan, Of of,
                   RowsOf rows_of, Batch& out) {
  size_t width = 0;
  for (const Batch* source : sources) {
    const int64_t rows = rows_of(*source);
    if (rows > 0) width = of(*source).size() / static_cast<size_t>(rows);
  }
  of(out).resize(width * static_cast<size_t>(plan.rows()));
  if (width == 0) return;
  float* const to = of(out).data();
  for (size_t i = 0; i < sources.size(); ++i) {
    const float* const from = of(*sources[i]).data();
    for (const Move& move : plan.of(i)) {
      std::copy_n(from + move.from * width, move.count * width, to + move.to * width);
    }
  }
}

void gather_single_keys(std::span<const Batch* const> sources, const MovePlan& plan, size_t c,
                        SparseColumn& to) {
  to.offsets.clear();
  to.weights.clear();
  to.keys.resize(static_cast<size_t>(plan.rows()));
  for (size_t i = 0; i < sources.size(); ++i) {
    const int64_t* const from = sources[i]->sparse[c].keys.data();
    int64_t* const keys = to.keys.data();
    if (plan.single_rows()) {
      for (const Move& move : plan.of(i)) keys[move.to] = from[move.from];
    } else {
      for (const Move& move : plan.of(i)) std::copy_n(from + move.from, move.count, keys + move.to);
    }
  }
}

size_t first_key(const SparseColumn& column, uint32_t row) {
  return column.offsets.empty() ? row : static_cast<size_t>(column.offsets[row]);
}

// Writes the offsets of the result; first_of(source, row) is where the row's items start there.
template <class FirstOf>
void gather_offsets(size_t sources, const MovePlan& plan, FirstOf first_of,
                    HostVector<int32_t>& to) {
  to.resize(static_cast<size_t>(plan.rows() + 1));
  to[0] = 0;
  int64_t items = 0;
  for (size_t i = 0; i < sources; ++i) {
    for (const Move& move : plan.of(i)) {
      items += static_cast<int64_t>(first_of(i, move.from + move.count) - first_of(i, move.from));
      for (uint32_t k = 0; k < move.count; ++k) {
        const uint32_t row = move.from + k;
        to[move.to + k + 1] = static_cast<int32_t>(first_of(i, row + 1) - first_of(i, row));
      }
    }
  }
  EMBLEM_REQUIRE(items <= INT32_MAX, "a batch of ", plan.rows(), " rows has ", items,
                 " values in one column; expected at most ", INT32_MAX,
                 ", use a smaller batch_size");
  for (int64_t row = 0; row < plan.rows(); ++row) to[row + 1] += to[row];
}

void gather_bags(std::span<const Batch* const> sources, const MovePlan& plan, size_t c,
                 bool weighted, SparseColumn& to) {
  gather_offsets(
      sources.size(), plan,
      [&](size_t i, uint32_t row) { return first_key(sources[i]->sparse[c], row); }, to.offsets);
  const auto keys = static_cast<size_t>(to.offsets.back());
  to.keys.resize(keys);
  to.weights.resize(weighted ? keys : 0);
  for (size_t i = 0; i < sources.size(); ++i) {
    const SparseColumn& from = sources[i]->sparse[c];
    for (const Move& move : plan.of(i)) {  // the keys of neighbouring rows follow each other
      const size_t begin = first_key(from, move.from);
      const size_t count = first_key(from, move.from + move.count) - begin;
      const auto at = static_cast<size_t>(to.offsets[move.to]);
      std::copy_n(from.keys.data() + begin, count, to.keys.data() + at);
      if (!weighted) continue;
      if (from.weights.empty()) {
        std::fill_n(to.weights.data() + at, count, 1.0f);
      } else {
        std::copy_n(from.weights.data() + begin, count, to.weights.data() + at);
      }
    }
  }
  drop_plain_offsets(to);
}

void gather_marks(std::span<const Batch* const> sources, std::span<const RowRun> runs, Batch& out) {
  out.bad.clear();
  const bool any = std::any_of(sources.begin(), sources.end(),
                               [](const Batch* source) { return !source->bad.empty(); });
  if (!any) return;
  for (const RowRun& run : runs) {
    const std::vector<uint8_t>& from = sources[run.source]->bad;
    const auto begin = from.begin() + run.begin;
    if (from.empty())
      out.bad.insert(out.bad.end(), run.count, 0);
    else
      out.bad.insert(out.bad.end(), begin, begin + run.count);
  }
}

void gather_kept(std::span<const Batch* const> sources, std::span<const RowRun> runs, Batch& out) {
  out.kept.clear();
  for (const RowRun& run : runs) {
    const TextColumn& from = sources[run.source]->kept;
    if (from.rows() == 0) continue;
    for (uint32_t row = run.begin; row < run.begin + run.count; ++row) out.kept.append(from[row]);
  }
}

void gather_sparse(std::span<const Batch* const> sources, const MovePlan& plan, size_t c,
                   SparseColumn& to) {
  bool bags = false, weighted = false;
  for (const Batch* source : sources) {
    bags = bags || !source->sparse[c].offsets.empty();
    weighted = weighted || !source->sparse[c].weights.empty();
  }
  if (bags || weighted) {
    gather_bags(sources, plan, c, weighted, to);
  } else {
    gather_single_keys(sources, plan, c, to);
  }
}

// Also returns the moves of the sequence's elements.
MovePlan gather_sequence(std::span<const Batch* const> sources, const MovePlan& plan, size_t s,
                         Batch& out) {
  HostVector<int32_t>& offsets = out.sequences[s].offsets;
  gather_offsets(
      sources.size(), plan,
      [&](size_t i, uint32_t row) { return sources[i]->sequences[s].offsets[row]; }, offsets);
  MovePlan elements = plan.of_elements(sources, s, offsets);
  gather_matrix(
      sources, elements, [s](auto& batch) -> auto& { return batch.sequences[s].numbers; },
      [s](const Batch& batch) { return batch.sequences[s].elements(); }, out);
  return elements;
}

}  // namespace

void gather_rows(std::span<const Batch* const> sources, std::span<const RowRun> runs, Batch& out) {
  const MovePlan plan(runs, sources.size());
  const auto rows_of = [](const Batch& batch) { return batch.rows; };
  out.rows = plan.rows();
  gather_matrix(
      sources, plan, [](auto& batch) -> auto& { return batch.dense; }, rows_of, out);
  gather_matrix(
      sources, plan, [](auto& batch) -> auto& { return batch.labels; }, rows_of, out);
  gather_matrix(
      sources, plan, [](auto& batch) -> auto& { return batch.sample_weights; }, rows_of, out);
  gather_marks(sources, runs, out);
  gather_kept(sources, runs, out);
  out.resize_sequences(sources.empty() ? 0 : sources[0]->sequences.size());
  std::vector<MovePlan> elements;
  for (size_t s = 0; s < out.sequences.size(); ++s)
    elements.push_back(gather_sequence(sources, plan, s, out));
  out.resize_sparse(sources.empty() ? 0 : sources[0]->sparse.size());
  for (size_t c = 0; c < out.sparse.size(); ++c) {
    const int32_t sequence = sources[0]->sparse[c].sequence;
    out.sparse[c].sequence = sequence;
    gather_sparse(sources, sequence < 0 ? plan : elements[static_cast<size_t>(sequence)], c,
                  out.sparse[c]);
  }
}

}  // namespace emblem
