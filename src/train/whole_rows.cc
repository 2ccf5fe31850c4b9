#include "train/whole_rows.h"

#include <algorithm>
#include <cstring>

#include "core/host_vector.h"

namespace emblem {
namespace {

// A slice of some rows as one message: keys, scores, weights, states.
struct SliceRows {
  HostVector<char> bytes;

  void set(const RowBatch& batch) {
    bytes.clear();
    add(batch.keys);
    add(batch.scores);
    add(batch.weights);
    add(batch.states);
  }

 private:
  template <class T>
  void add(std::span<const T> values) {
    const auto* from = reinterpret_cast<const char*>(values.data());
    bytes.insert(bytes.end(), from, from + values.size_bytes());
  }
};

// Whole rows from the messages of all slices.
class JoinedRows {
 public:
  JoinedRows(const Table& table, size_t slices) : table_(table), slices_(slices) {}

  // `messages` by slice, all of the same keys.
  RowBatch of(const std::vector<HostVector<char>>& messages, size_t rows) {
    const auto dim = static_cast<size_t>(table_.settings().row_dim());
    const auto planes = static_cast<size_t>(table_.state_floats() / table_.dim());
    const bool has_scores = !table_.is_static();
    weights_.resize(rows * dim);
    states_.resize(rows * dim * planes);
    keys_.resize(rows);
    scores_.resize(has_scores ? rows : 0);
    for (size_t s = 0; s < slices_; ++s) {
      const size_t first = s * dim / slices_, count = (s + 1) * dim / slices_ - first;
      const char* next = messages[s].data();
      const auto take = [&](auto* to, size_t values) {
        if (values > 0) std::memcpy(to, next, values * sizeof(*to));
        next += values * sizeof(*to);
      };
      if (s > 0 && std::memcmp(next, keys_.data(), rows * sizeof(int64_t)) != 0)
        throw Error(ErrorCode::kInternal, cat("table ", table_.settings().name,
                                              ": the slices of its columns have different keys"));
      take(keys_.data(), rows);
      take(scores_.data(), scores_.size());
      for (size_t i = 0; i < rows; ++i) take(weights_.data() + i * dim + first, count);
      for (size_t i = 0; i < rows * planes; ++i) take(states_.data() + i * dim + first, count);
    }
    return {keys_, weights_, states_, scores_};
  }

 private:
  const Table& table_;
  size_t slices_;
  HostVector<int64_t> keys_, scores_;
  HostVector<float> weights_, states_;
};

class Joining {
 public:
  Joining(Communicator& ranks, const TableShards& shards, const Table& table, int to,
          const std::function<void(const RowBatch&)>& take)
      : ranks_(ranks),
        shards_(shards),
        to_(to),
        take_(take),
        joined_(table, shards.columns.size()) {}

  // `mine` is nothing on ranks without a slice.
  void step(SliceRows& mine, int64_t rows) {
    const auto count = static_cast<size_t>(ranks_.size());
    int64_t facts[2] = {rows, static_cast<int64_t>(mine.bytes.size())};
    std::vector<int64_t> all(2 * count);
    ranks_.gather_all(Context{}, {facts, sizeof(facts)},
                      {all.data(), all.size() * sizeof(int64_t)});
    std::vector<Piece> send(count), receive(count);
    send[static_cast<size_t>(to_)] = {mine.bytes.data(), mine.bytes.size()};
    std::vector<HostVector<char>> messages(shards_.columns.size());
    const auto first = static_cast<size_t>(shards_.columns[0]);
    for (size_t s = 0; s < messages.size() && ranks_.rank() == to_; ++s) {
      const auto from = static_cast<size_t>(shards_.columns[s]);
      messages[s].resize(static_cast<size_t>(all[2 * from + 1]));
      receive[from] = {messages[s].data(), messages[s].size()};
    }
    ranks_.exchange(Context{}, send, receive);
    if (ranks_.rank() == to_) take_(joined_.of(messages, static_cast<size_t>(all[2 * first])));
  }

 private:
  Communicator& ranks_;
  const TableShards& shards_;
  const int to_;
  const std::function<void(const RowBatch&)>& take_;
  JoinedRows joined_;
};

}  // namespace

void export_whole_rows(const Context& context, Communicator& ranks, const TableShards& shards,
                       const Table& table, int64_t batch_rows, int to,
                       const std::function<void(const RowBatch&)>& take,
                       std::optional<int64_t> since) {
  const bool holds = table.settings().held.count() > 0;
  // All slices have the same keys, so the same number of batches.
  int64_t batches = 0;
  if (holds)
    table.export_rows(
        context, batch_rows, [&](const RowBatch&) { ++batches; }, since);
  ranks.broadcast(Context{}, {&batches, sizeof(batches)}, shards.columns[0]);
  Joining joining(ranks, shards, table, to, take);
  SliceRows mine;
  if (!holds)
    for (int64_t i = 0; i < batches; ++i) joining.step(mine, 0);
  else
    table.export_rows(
        context, batch_rows,
        [&](const RowBatch& batch) {
          mine.set(batch);
          joining.step(mine, static_cast<int64_t>(batch.keys.size()));
        },
        since);
}

}  // namespace emblem
