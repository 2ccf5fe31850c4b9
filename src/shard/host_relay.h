// shard/host_relay.h - the exchanges inside a host that let each distinct row which its ranks need
// from another host cross the network once.
//
//   rank 0 ──┐  keys of rank 5's rows         distinct keys
//   rank 1 ──┼────────────────────> rank 1 ==================> rank 5, on another host
//   rank 2 ──┘ <────────────────────       <==================
//               rows                           distinct rows
//
// Rank 1 is the relay for rank 5. Gradients may go the same way, summed by key on the relay.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/rank_group.h"
#include "shard/host_groups.h"
#include "shard/key_numbers.h"
#include "shard/message_layout.h"
#include "shard/messages.h"
#include "shard/row_exchange.h"

namespace emblem {

// Items are pairs of (slot, table). Every rank calls the same functions in the same order. Keeps
// its memory. CPU memory. Used by one thread.
class HostRelay {
 public:
  // Floats travel in `precision`.
  HostRelay(Communicator& ranks, const HostGroups& groups, std::vector<MessageTable> tables,
            int64_t slots, DType precision);

  // 1. What this rank asks of a rank of another host: own(owner, item). Its keys, and its counts
  // where the table sends them in training, stay until the next call. Replicated tables are not
  // asked for.
  using OwnList = std::function<FeatureKeys(int owner, int64_t item)>;
  void gather_lists(const Context& context, const OwnList& own, Phase phase);
  // What this rank fetches for its host; null where another does.
  const MergedLists* merged(int owner, size_t table) const;

  // 2. Of merged keys: the rows, and whether they have none, where that may be. Then
  // rows() and absent() are those of own lists.
  template <class T>
  using OfTable = std::function<T*(int owner, size_t table)>;
  void hand_out(const Context& context, const OfTable<const float>& fetched_rows,
                const OfTable<const uint8_t>& fetched_absent);

  // 3. Then rows() are for the gradients of own lists, ...
  void lay_out_gradients();
  // ... whose sums go to `sums(owner, table)`.
  void gather_sums(const Context& context, const OfTable<float>& sums);

  // Rows of an item of own lists.
  float* rows(int owner, int64_t item);
  uint8_t* absent(int owner, int64_t item);

 private:
  struct Fetched {
    int owner;
    size_t place;  // in fetched_by(near_self())
    size_t table;
    MergedLists lists;
  };

  int64_t items() const { return slots_ * static_cast<int64_t>(tables_.size()); }
  const MessageTable& table_of(int64_t item) const {
    return tables_[static_cast<size_t>(item) % tables_.size()];
  }
  // Blocks of messages inside the host: of each pair of (fetched rank, item).
  int64_t blocks() const { return most_fetched_ * items(); }
  int64_t block(size_t place, int64_t item) const {
    return static_cast<int64_t>(place) * items() + item;
  }
  size_t near_self() const { return static_cast<size_t>(groups_.near_self()); }
  void exchange_sizes(const Context& context, const OwnList& own);
  void exchange_keys(const Context& context, const OwnList& own, Phase phase);
  void merge(const Context& context, const OwnList& own);
  // The block of a list of what is fetched, that of (rank of this host, slot).
  int64_t list_block(const Fetched& fetched, size_t list) const;
  int rank_of_list(size_t list) const {
    return static_cast<int>(list / static_cast<size_t>(slots_));
  }
  void lay_out_rows(int64_t sections);

  const HostGroups& groups_;
  RankGroup near_;
  const std::vector<MessageTable> tables_;
  const int64_t slots_;
  int64_t most_fetched_ = 0;  // by a rank of this host
  RowExchange exchange_rows_;
  std::vector<Fetched> fetched_;
  std::vector<int32_t> fetched_at_;  // [ranks, tables]: its number, or -1
  // [ranks of the host, blocks]: keys that this rank asks of a relay, and that ranks ask of this
  // one.
  HostVector<int32_t> asked_sizes_, requested_sizes_;
  // Messages by rank of the host. Keys, then counts; rows, then absent flags. Rows that this
  // rank asks of itself are among the requested ones.
  Messages asked_keys_, requested_keys_, asked_rows_, requested_rows_;
  KeySlotsPool slots_pool_;
};

}  // namespace emblem
