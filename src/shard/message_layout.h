// shard/message_layout.h - where keys, rows and gradients are in the messages between this rank and
// all others: one message to or from a rank for all shards and tables.
//
// An item is what a shard needs of a table from one rank. Messages:
//   keys       8 bytes each, of all items; then the occurrences, 4 bytes each, of tables that count
//   answers    flags, a byte for each key that may have no row; then rows
//   gradients  rows again
// Rows of replicated tables are last: each rank answers itself, and gradients go to every rank.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace emblem {

struct MessageTable {
  int64_t dim = 0;
  bool replicated = false;
  bool sends_counts = false;
  bool can_miss = false;
};

// Begins, in elements of what it is.
struct ItemPlace {
  uint32_t count = 0;   // keys
  uint32_t keys = 0;    // keys of 8 bytes
  uint32_t counts = 0;  // counts of 4 bytes; where counts are sent
  uint32_t rows = 0;    // rows of MessageSettings::element_bytes
  uint64_t flags = 0;   // flags of 1 byte; where rows may be missing
};

struct MessageSettings {
  int ranks = 1;
  int self = 0;               // this rank
  int64_t slots = 1;          // most shards of a rank
  int64_t element_bytes = 4;  // size of an element of rows
  bool with_counts = false;   // occurrences are sent
};

// Bytes of a message.
struct MessageRange {
  int64_t begin = 0, end = 0;
};

class MessageLayout {
 public:
  using Count = std::function<int64_t(int rank, int64_t slot, size_t table)>;
  // `asked`, where given, is what this rank asks: rows begin behind its rows, and those that this
  // rank asks of itself are the same memory.
  void lay_out(const std::vector<MessageTable>& tables, const MessageSettings& settings,
               const Count& count, const MessageLayout* asked = nullptr);

  const ItemPlace& item(int rank, int64_t slot, size_t table) const {
    return items_[first_item(rank, slot) + table];
  }
  const std::vector<ItemPlace>& items() const { return items_; }  // by rank, slot, table

  // Ranges by rank.
  const std::vector<MessageRange>& keys() const { return keys_; }
  const std::vector<MessageRange>& answers() const { return answers_; }  // not to itself
  const std::vector<MessageRange>& gradients() const { return gradients_; }
  // Keys of replicated tables within the messages. Equal on all ranks but for where they
  // begin.
  const std::vector<MessageRange>& replicated_keys() const { return replicated_keys_; }
  const std::vector<MessageRange>& replicated_counts() const { return replicated_counts_; }
  const std::vector<MessageRange>& replicated_rows() const { return replicated_rows_; }

  int64_t key_bytes() const { return keys_.empty() ? 0 : keys_.back().end; }
  // End of answers and gradients, which share memory.
  int64_t rows_end() const { return rows_end_; }
  int64_t total() const { return total_; }  // keys

 private:
  size_t first_item(int rank, int64_t slot) const {
    return static_cast<size_t>(rank * settings_.slots + slot) * tables_.size();
  }
  // body(table, item) for items of a rank whose tables are, or are not, replicated.
  template <class Body>
  void for_each_item(int rank, bool replicated, const Body& body);
  int64_t lay_keys(int rank, int64_t begin);  // return the end
  int64_t lay_rows(int rank, int64_t begin);
  void take_places(int rank, const MessageLayout& other);

  std::vector<MessageTable> tables_;
  MessageSettings settings_;
  int64_t total_ = 0, rows_end_ = 0;
  std::vector<ItemPlace> items_;
  std::vector<MessageRange> keys_, answers_, gradients_;
  std::vector<MessageRange> replicated_keys_, replicated_counts_, replicated_rows_;
};

}  // namespace emblem
