#include "shard/host_answers.h"

#include "core/threads/thread_pool.h"

namespace emblem {

HostAnswers::HostAnswers(const HostGroups& groups, std::vector<MessageTable> tables, int64_t slots,
                         int self)
    : groups_(groups), tables_(std::move(tables)), slots_(slots) {
  size_t ranks = 0;
  for (size_t host = 0; host < groups.hosts(); ++host) ranks += groups.ranks_of_host(host).size();
  answer_at_.assign(ranks * tables_.size(), -1);
  for (size_t host = 0; host < groups.hosts(); ++host) {
    if (host == groups.host_of(self)) continue;
    const int relay = groups.relay(host, self);
    for (size_t t = 0; t < tables_.size(); ++t) {
      if (tables_[t].replicated) continue;
      answer_at_[static_cast<size_t>(relay) * tables_.size() + t] =
          static_cast<int32_t>(answers_.size());
      answers_.push_back({.host = host, .relay = relay, .table = t, .lists = {}});
    }
  }
}

int HostAnswers::rank_of(const Answer& answer, size_t list) const {
  return groups_.ranks_of_host(answer.host)[list / static_cast<size_t>(slots_)];
}

int64_t HostAnswers::item_of(const Answer& answer, size_t list) const {
  return static_cast<int64_t>(list % static_cast<size_t>(slots_) * tables_.size() + answer.table);
}

void HostAnswers::merge(const Context& context, const OfItem<FeatureKeys>& requested) {
  parallel_for(context, std::ssize(answers_), 1, [&](int64_t a, int64_t) {
    Answer& answer = answers_[static_cast<size_t>(a)];
    std::vector<FeatureKeys> lists(groups_.ranks_of_host(answer.host).size() *
                                   static_cast<size_t>(slots_));
    for (size_t list = 0; list < lists.size(); ++list)
      lists[list] = requested(rank_of(answer, list), item_of(answer, list));
    slots_pool_.with_slots([&](KeySlots& slots) { answer.lists.merge(std::move(lists), slots); });
  });
}

int64_t HostAnswers::count(int relay, size_t table) const {
  const int32_t number = answer_at_[static_cast<size_t>(relay) * tables_.size() + table];
  return number < 0 ? 0 : answers_[static_cast<size_t>(number)].lists.size();
}

void HostAnswers::pack(const Context& context, const OfItem<const float*>& rows,
                       const OfItem<const uint8_t*>& absent, const OfTable<float*>& packed,
                       const OfTable<uint8_t*>& packed_absent) const {
  parallel_for(context, std::ssize(answers_), 1, [&](int64_t a, int64_t) {
    const Answer& answer = answers_[static_cast<size_t>(a)];
    if (answer.lists.size() == 0) return;
    const MessageTable& table = tables_[answer.table];
    answer.lists.pack(
        [&](size_t list) { return rows(rank_of(answer, list), item_of(answer, list)); }, table.dim,
        packed(answer.relay, answer.table));
    if (!table.can_miss) return;
    answer.lists.pack(
        [&](size_t list) { return absent(rank_of(answer, list), item_of(answer, list)); }, 1,
        packed_absent(answer.relay, answer.table));
  });
}

}  // namespace emblem
