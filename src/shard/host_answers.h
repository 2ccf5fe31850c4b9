// shard/host_answers.h - the rows that the ranks of another host asked of this one, each distinct
// one once: what is sent to their relay (shard/host_relay.h).
#pragma once

#include <functional>
#include <vector>

#include "shard/host_groups.h"
#include "shard/key_numbers.h"
#include "shard/message_layout.h"

namespace emblem {

// Where ranks send their keys themselves. Numbers keys as the relay does. Used by one thread.
class HostAnswers {
 public:
  HostAnswers(const HostGroups& groups, std::vector<MessageTable> tables, int64_t slots, int self);

  template <class T>
  using OfItem = std::function<T(int rank, int64_t item)>;
  template <class T>
  using OfTable = std::function<T(int relay, size_t table)>;

  // The keys that a rank of another host asks for, of tables that are not replicated.
  void merge(const Context& context, const OfItem<FeatureKeys>& requested);
  // Distinct ones; 0 for a rank that is not the relay of this one.
  int64_t count(int relay, size_t table) const;
  // Copies rows, and flags of those that may be absent, of first occurrences.
  void pack(const Context& context, const OfItem<const float*>& rows,
            const OfItem<const uint8_t*>& absent, const OfTable<float*>& packed,
            const OfTable<uint8_t*>& packed_absent) const;

 private:
  struct Answer {
    size_t host;
    int relay;
    size_t table;
    MergedLists lists;
  };
  // The rank of a list, which is that of (rank of the host, slot).
  int rank_of(const Answer& answer, size_t list) const;
  int64_t item_of(const Answer& answer, size_t list) const;

  const HostGroups& groups_;
  const std::vector<MessageTable> tables_;
  const int64_t slots_;
  std::vector<Answer> answers_;
  std::vector<int32_t> answer_at_;  // [ranks, tables]: its number, or -1
  KeySlotsPool slots_pool_;
};

}  // namespace emblem
