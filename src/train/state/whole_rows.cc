#include "train/state/whole_rows.h"

#include <algorithm>
#include <cstring>

#include "core/memory/host_vector.h"

namespace emblem {
namespace {

// A slice of some rows, gathered from batches of any size, as one message: keys, scores, weights,
// states.
class SliceRows {
 public:
  int64_t rows() const { return static_cast<int64_t>(keys_.size()); }
  // Rows of a batch, from `first` on.
  void add(const RowBatch& batch, size_t first, size_t count) {
    const size_t rows = batch.keys.size();
    add(batch.keys, first, count, rows, keys_);
    add(batch.scores, first, count, rows, scores_);
    add(batch.weights, first, count, rows, weights_);
    add(batch.states, first, count, rows, states_);
  }
  HostVector<char> take_message() {
    HostVector<char> message;
    move(keys_, message);
    move(scores_, message);
    move(weights_, message);
    move(states_, message);
    return message;
  }

 private:
  template <class T>
  static void add(std::span<const T> values, size_t first, size_t count, size_t rows,
                  HostVector<T>& to) {
    const size_t each = values.size() / rows;
    const T* from = values.data() + first * each;
    to.insert(to.end(), from, from + count * each);
  }
  template <class T>
  static void move(HostVector<T>& values, HostVector<char>& to) {
    const auto* from = reinterpret_cast<const char*>(values.data());
    to.insert(to.end(), from, from + values.size() * sizeof(T));
    values.clear();
  }

  HostVector<int64_t> keys_, scores_;
  HostVector<float> weights_, states_;
};

[[noreturn]] void refuse_different_keys(const Table& table) {
  throw Error(ErrorCode::kInternal, cat("table ", table.settings().name,
                                        ": the slices of its columns have different keys"));
}

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
        refuse_different_keys(table_);
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
        table_(table),
        to_(to),
        take_(take),
        joined_(table, shards.columns.size()) {}

  // `mine` is nothing on ranks without a slice. After the last rows: kEnd. False then.
  enum class Rows { kMore, kEnd };
  bool step(SliceRows& mine, Rows which = Rows::kMore) {
    constexpr int64_t kNoMore = -1;
    const auto count = static_cast<size_t>(ranks_.size());
    const int64_t rows_here = which == Rows::kEnd ? kNoMore : mine.rows();
    HostVector<char> message = mine.take_message();
    int64_t facts[2] = {rows_here, static_cast<int64_t>(message.size())};
    std::vector<int64_t> all(2 * count);
    ranks_.gather_all(Context{}, {facts, sizeof(facts)},
                      {all.data(), all.size() * sizeof(int64_t)});
    const int64_t rows = all[2 * static_cast<size_t>(shards_.columns[0])];
    for (const int rank : shards_.columns)
      if (all[2 * static_cast<size_t>(rank)] != rows) refuse_different_keys(table_);
    if (rows == kNoMore) return false;
    std::vector<Piece> send(count), receive(count);
    send[static_cast<size_t>(to_)] = {message.data(), message.size()};
    std::vector<HostVector<char>> messages(shards_.columns.size());
    for (size_t s = 0; s < messages.size() && ranks_.rank() == to_; ++s) {
      const auto from = static_cast<size_t>(shards_.columns[s]);
      messages[s].resize(static_cast<size_t>(all[2 * from + 1]));
      receive[from] = {messages[s].data(), messages[s].size()};
    }
    ranks_.exchange(Context{}, send, receive);
    if (ranks_.rank() == to_) take_(joined_.of(messages, static_cast<size_t>(rows)));
    return true;
  }

 private:
  Communicator& ranks_;
  const TableShards& shards_;
  const Table& table_;
  const int to_;
  const std::function<void(const RowBatch&)>& take_;
  JoinedRows joined_;
};

}  // namespace

void export_whole_rows(const Context& context, Communicator& ranks, const TableShards& shards,
                       const Table& table, int64_t batch_rows, int to,
                       const std::function<void(const RowBatch&)>& take,
                       std::optional<int64_t> since) {
  Joining joining(ranks, shards, table, to, take);
  SliceRows mine;
  if (table.settings().held.count() == 0) {
    while (joining.step(mine)) {
    }
    return;
  }
  // All slices have the same keys in the same order, but a table on a GPU may cut its batches
  // elsewhere than those of others.
  table.export_rows(
      context, batch_rows,
      [&](const RowBatch& batch) {
        for (size_t first = 0; first < batch.keys.size();) {
          const size_t count =
              std::min(batch.keys.size() - first, static_cast<size_t>(batch_rows - mine.rows()));
          mine.add(batch, first, count);
          first += count;
          if (mine.rows() == batch_rows) joining.step(mine);
        }
      },
      since);
  if (mine.rows() > 0) joining.step(mine);
  joining.step(mine, Joining::Rows::kEnd);
}

}  // namespace emblem
