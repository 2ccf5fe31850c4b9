#include "shard/host_relay.h"

#include <cstring>

#include "core/threads/thread_pool.h"

namespace emblem {
HostRelay::HostRelay(Communicator& ranks, const HostGroups& groups,
                     std::vector<MessageTable> tables, int64_t slots, DType precision)
    : groups_(groups),
      near_(ranks, groups.near()),
      tables_(std::move(tables)),
      slots_(slots),
      exchange_rows_(near_, precision) {
  for (size_t n = 0; n < groups_.near().size(); ++n)
    most_fetched_ = std::max(most_fetched_, std::ssize(groups_.fetched_by(n)));
  fetched_at_.assign(static_cast<size_t>(ranks.size()) * tables_.size(), -1);
  const std::vector<int>& owners = groups_.fetched_by(near_self());
  for (size_t place = 0; place < owners.size(); ++place) {
    for (size_t t = 0; t < tables_.size(); ++t) {
      if (tables_[t].replicated) continue;
      fetched_at_[static_cast<size_t>(owners[place]) * tables_.size() + t] =
          static_cast<int32_t>(fetched_.size());
      fetched_.push_back({.owner = owners[place], .place = place, .table = t, .lists = {}});
    }
  }
  const size_t sizes = groups_.near().size() * static_cast<size_t>(blocks());
  asked_sizes_.resize(sizes);
  requested_sizes_.resize(sizes);
}

const MergedLists* HostRelay::merged(int owner, size_t table) const {
  const int32_t number = fetched_at_[static_cast<size_t>(owner) * tables_.size() + table];
  return number < 0 ? nullptr : &fetched_[static_cast<size_t>(number)].lists;
}

int64_t HostRelay::list_block(const Fetched& fetched, size_t list) const {
  const size_t slot = list % static_cast<size_t>(slots_);
  return block(fetched.place, static_cast<int64_t>(slot * tables_.size() + fetched.table));
}

// ---- keys ----

void HostRelay::exchange_sizes(const Context& context, const OwnList& own) {
  std::fill(asked_sizes_.begin(), asked_sizes_.end(), 0);
  std::vector<Piece> send, receive;
  const auto each = static_cast<size_t>(blocks());
  for (size_t n = 0; n < groups_.near().size(); ++n) {
    const std::vector<int>& owners = groups_.fetched_by(n);
    for (size_t place = 0; place < owners.size(); ++place)
      for (int64_t i = 0; i < items(); ++i)
        asked_sizes_[n * each + static_cast<size_t>(block(place, i))] =
            table_of(i).replicated ? 0 : static_cast<int32_t>(own(owners[place], i).keys.size());
    const auto bytes = [&](size_t rank) {
      return groups_.fetched_by(rank).size() * static_cast<size_t>(items()) * sizeof(int32_t);
    };
    send.push_back({asked_sizes_.data() + n * each, bytes(n)});
    receive.push_back({requested_sizes_.data() + n * each, bytes(near_self())});
  }
  std::fill(requested_sizes_.begin(), requested_sizes_.end(), 0);
  near_.exchange(context, send, receive);
}

void HostRelay::exchange_keys(const Context& context, const OwnList& own, Phase phase) {
  const auto lay_out = [&](Messages& messages, const HostVector<int32_t>& sizes) {
    messages.lay_out(near_.size(), 2 * blocks(), [&](int n, int64_t b) -> int64_t {
      if (n == near_.rank()) return 0;
      const int64_t count = sizes[static_cast<size_t>(n * blocks() + b % blocks())];
      if (b < blocks()) return count * int64_t{sizeof(int64_t)};
      const bool is_counted = phase == Phase::kTrain && table_of(b % items()).sends_counts;
      return is_counted ? count * int64_t{sizeof(int32_t)} : 0;
    });
  };
  lay_out(asked_keys_, asked_sizes_);
  lay_out(requested_keys_, requested_sizes_);
  for (int n = 0; n < near_.size(); ++n) {
    const std::vector<int>& owners = groups_.fetched_by(static_cast<size_t>(n));
    for (size_t place = 0; n != near_.rank() && place < owners.size(); ++place) {
      for (int64_t i = 0; i < items(); ++i) {
        const int64_t b = block(place, i);
        if (asked_keys_.bytes(n, b) == 0) continue;
        const FeatureKeys list = own(owners[place], i);
        copy_bytes(asked_keys_.at<char>(n, b), list.keys.data, asked_keys_.bytes(n, b));
        copy_bytes(asked_keys_.at<char>(n, blocks() + b), list.counts.data,
                   asked_keys_.bytes(n, blocks() + b));
      }
    }
  }
  near_.exchange(context, asked_keys_.pieces(near_.rank()), requested_keys_.pieces(near_.rank()));
}

void HostRelay::merge(const Context& context, const OwnList& own) {
  parallel_for(context, std::ssize(fetched_), 1, [&](int64_t f, int64_t) {
    Fetched& fetched = fetched_[static_cast<size_t>(f)];
    std::vector<FeatureKeys> lists;
    for (size_t list = 0; list < static_cast<size_t>(near_.size() * slots_); ++list) {
      const int n = rank_of_list(list);
      const int64_t b = list_block(fetched, list);
      if (n == near_.rank()) {
        lists.push_back(own(fetched.owner, b % items()));
        continue;
      }
      lists.push_back(
          {.keys = {requested_keys_.at<int64_t>(n, b),
                    requested_keys_.bytes(n, b) / int64_t{sizeof(int64_t)}, 1},
           .counts = {requested_keys_.at<int32_t>(n, blocks() + b),
                      requested_keys_.bytes(n, blocks() + b) / int64_t{sizeof(int32_t)}, 1}});
    }
    slots_pool_.with_slots([&](KeySlots& slots) { fetched.lists.merge(std::move(lists), slots); });
  });
}

void HostRelay::gather_lists(const Context& context, const OwnList& own, Phase phase) {
  exchange_sizes(context, own);
  exchange_keys(context, own, phase);
  merge(context, own);
}

// ---- rows and gradients ----

// `sections`: rows, and absent flags if there are two.
void HostRelay::lay_out_rows(int64_t sections) {
  const auto bytes_of = [&](const HostVector<int32_t>& sizes, int n, int64_t b) -> int64_t {
    const int64_t count = sizes[static_cast<size_t>(n * blocks() + b % blocks())];
    const MessageTable& table = table_of(b % items());
    return count * (b < blocks() ? table.dim * int64_t{sizeof(float)} : int64_t{table.can_miss});
  };
  asked_rows_.lay_out(near_.size(), sections * blocks(), [&](int n, int64_t b) {
    return n == near_.rank() ? 0 : bytes_of(asked_sizes_, n, b);
  });
  requested_rows_.lay_out(near_.size(), sections * blocks(),
                          [&](int n, int64_t b) { return bytes_of(requested_sizes_, n, b); });
}

void HostRelay::hand_out(const Context& context, const OfTable<const float>& fetched_rows,
                         const OfTable<const uint8_t>& fetched_absent) {
  lay_out_rows(2);
  const int64_t lists = near_.size() * slots_;
  parallel_for(context, std::ssize(fetched_) * lists, 1, [&](int64_t i, int64_t) {
    const Fetched& fetched = fetched_[static_cast<size_t>(i / lists)];
    const auto list = static_cast<size_t>(i % lists);
    const MessageTable& table = tables_[fetched.table];
    const int n = rank_of_list(list);
    const int64_t b = list_block(fetched, list);
    if (requested_rows_.bytes(n, b) == 0) return;
    fetched.lists.spread(list, fetched_rows(fetched.owner, fetched.table), table.dim,
                         requested_rows_.at<float>(n, b));
    if (table.can_miss)
      fetched.lists.spread(list, fetched_absent(fetched.owner, fetched.table), 1,
                           requested_rows_.at<uint8_t>(n, blocks() + b));
  });
  exchange_rows_(context, requested_rows_, {0, blocks()}, asked_rows_, {0, blocks()});
}

void HostRelay::lay_out_gradients() { lay_out_rows(1); }

void HostRelay::gather_sums(const Context& context, const OfTable<float>& sums) {
  exchange_rows_(context, asked_rows_, {0, blocks()}, requested_rows_, {0, blocks()});
  parallel_for(context, std::ssize(fetched_), 1, [&](int64_t f, int64_t) {
    const Fetched& fetched = fetched_[static_cast<size_t>(f)];
    if (fetched.lists.size() == 0) return;
    const auto gradients = [&](size_t list) {
      return requested_rows_.at<float>(rank_of_list(list), list_block(fetched, list));
    };
    fetched.lists.sum(gradients, tables_[fetched.table].dim, sums(fetched.owner, fetched.table));
  });
}

float* HostRelay::rows(int owner, int64_t item) {
  const auto n = static_cast<int>(groups_.near_relay(owner));
  Messages& messages = n == near_.rank() ? requested_rows_ : asked_rows_;
  return messages.at<float>(n, block(groups_.place_at_relay(owner), item));
}

uint8_t* HostRelay::absent(int owner, int64_t item) {
  const auto n = static_cast<int>(groups_.near_relay(owner));
  Messages& messages = n == near_.rank() ? requested_rows_ : asked_rows_;
  return messages.at<uint8_t>(n, blocks() + block(groups_.place_at_relay(owner), item));
}

}  // namespace emblem
