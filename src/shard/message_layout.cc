#include "shard/message_layout.h"

#include "core/math/divide.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Alignment of messages, and of the rows of an item: four floats are read at a time.
constexpr int64_t kAlignment = 16;

int64_t aligned(int64_t bytes) { return round_up(bytes, kAlignment); }

}  // namespace

template <class Body>
void MessageLayout::for_each_item(int rank, bool replicated, const Body& body) {
  for (int64_t slot = 0; slot < settings_.slots; ++slot)
    for (size_t t = 0; t < tables_.size(); ++t)
      if (tables_[t].replicated == replicated) body(tables_[t], items_[first_item(rank, slot) + t]);
}

int64_t MessageLayout::lay_keys(int rank, int64_t begin) {
  const auto r = static_cast<size_t>(rank);
  int64_t end = begin;
  const auto lay_keys = [&](const MessageTable&, ItemPlace& item) {
    item.keys = static_cast<uint32_t>(end / 8);
    end += item.count * int64_t{8};
    total_ += item.count;
  };
  const auto lay_counts = [&](const MessageTable& table, ItemPlace& item) {
    item.counts = static_cast<uint32_t>(end / 4);
    if (settings_.with_counts && table.sends_counts) end += item.count * int64_t{4};
  };
  for_each_item(rank, false, lay_keys);
  replicated_keys_[r].begin = end;
  for_each_item(rank, true, lay_keys);
  replicated_keys_[r].end = end;
  for_each_item(rank, false, lay_counts);
  replicated_counts_[r].begin = end;
  for_each_item(rank, true, lay_counts);
  replicated_counts_[r].end = end;
  keys_[r] = {begin, aligned(end)};
  return keys_[r].end;
}

int64_t MessageLayout::lay_rows(int rank, int64_t begin) {
  const auto r = static_cast<size_t>(rank);
  const bool to_itself = rank == settings_.self;
  int64_t end = begin;
  const auto lay_flags = [&](const MessageTable& table, ItemPlace& item) {
    item.flags = static_cast<uint64_t>(end);
    if (table.can_miss && (to_itself || !table.replicated)) end += item.count;
  };
  const auto lay_rows = [&](const MessageTable& table, ItemPlace& item) {
    item.rows = static_cast<uint32_t>(end / settings_.element_bytes);
    end = aligned(end + item.count * table.dim * settings_.element_bytes);
  };
  for_each_item(rank, false, lay_flags);
  for_each_item(rank, true, lay_flags);
  const int64_t first_row = end = aligned(end);
  for_each_item(rank, false, lay_rows);
  replicated_rows_[r].begin = end;
  for_each_item(rank, true, lay_rows);
  replicated_rows_[r].end = end;
  if (!to_itself) {
    answers_[r] = {begin, replicated_rows_[r].begin};
    gradients_[r] = {first_row, end};
  }
  return end;
}

void MessageLayout::take_places(int rank, const MessageLayout& other) {
  for (int64_t slot = 0; slot < settings_.slots; ++slot) {
    for (size_t t = 0; t < tables_.size(); ++t) {
      items_[first_item(rank, slot) + t].rows = other.item(rank, slot, t).rows;
      items_[first_item(rank, slot) + t].flags = other.item(rank, slot, t).flags;
    }
  }
}

void MessageLayout::lay_out(const std::vector<MessageTable>& tables,
                            const MessageSettings& settings, const Count& count,
                            const MessageLayout* asked) {
  tables_ = tables;
  settings_ = settings;
  total_ = 0;
  const auto ranks = static_cast<size_t>(settings.ranks);
  items_.assign(ranks * static_cast<size_t>(settings.slots) * tables.size(), {});
  for (auto* ranges :
       {&keys_, &answers_, &gradients_, &replicated_keys_, &replicated_counts_, &replicated_rows_})
    ranges->assign(ranks, {});
  int64_t keys = 0, rows = asked != nullptr ? asked->rows_end_ : 0;
  for (int rank = 0; rank < settings.ranks; ++rank) {
    for (int64_t slot = 0; slot < settings.slots; ++slot)
      for (size_t t = 0; t < tables.size(); ++t)
        items_[first_item(rank, slot) + t].count = static_cast<uint32_t>(count(rank, slot, t));
    keys = lay_keys(rank, keys);
    if (rank == settings.self && asked != nullptr)
      take_places(rank, *asked);
    else
      rows = lay_rows(rank, rows);
  }
  rows_end_ = rows;
  EMBLEM_REQUIRE(rows / settings.element_bytes < int64_t{1} << 32 && keys / 4 < int64_t{1} << 32,
                 "the messages of a batch have ", rows, " bytes of rows, more than 2^32 elements; ",
                 "lower the batch size");
}

}  // namespace emblem
