// store/kv_store.h - named tables of float rows, keyed by 64-bit integers, wherever they are kept.
//
// All methods of tables and stores may be called from any thread at any time. A row is read whole
// or not at all: never half of an old and half of a new one. A store that cannot be reached throws
// kUnavailable; it never answers that a key is absent because it could not ask.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emblem/error.h"

namespace emblem {

class KvTable;

// One table's part of a fetch from several (fetch_all).
struct KvFetch {
  const KvTable* table = nullptr;
  // As KvTable::fetch takes them.
  std::span<const int64_t> keys;
  std::span<float> rows;
  std::span<uint8_t> found;
  // The result: how many were found, or why the table could not be asked.
  int64_t hits = 0;
  std::optional<Error> error = {};
  // Keys, by their number, of which the store cannot say whether it has a row: it has lost the
  // partition, or the row is damaged. They are not found.
  std::vector<uint32_t> unknown = {};
};

class KvTable {
 public:
  KvTable(std::string name, int64_t dim) : name_(std::move(name)), dim_(dim) {
    EMBLEM_REQUIRE(dim >= 1, "table ", name_, ": rows of ", dim, " floats; at least 1 is needed");
  }
  virtual ~KvTable() = default;
  KvTable(const KvTable&) = delete;
  KvTable& operator=(const KvTable&) = delete;

  const std::string& name() const { return name_; }
  int64_t dim() const { return dim_; }

  // rows[i] = the row of keys[i] and found[i] = 1 where there is one, else found[i] = 0 and rows[i]
  // stays as it is (where it is damaged, anything). rows is [keys, dim]. Returns how many were
  // found. Throws kUnavailable when there are unknown ones (KvFetch).
  virtual int64_t fetch(std::span<const int64_t> keys, std::span<float> rows,
                        std::span<uint8_t> found) const = 0;
  // Tables of the same group are asked together by fetch_together, which any of them has.
  virtual const void* fetch_group() const { return this; }
  virtual void fetch_together(std::span<KvFetch* const> fetches) const;
  // Inserts or overwrites; the last of equal keys stays. When it throws, any of the rows may have
  // been written, each whole.
  virtual void insert(std::span<const int64_t> keys, std::span<const float> rows) = 0;
  // Rows that keys have already may stay as they are, some or all. Where other processes write
  // to the table, all do.
  virtual void insert_missing(std::span<const int64_t> keys, std::span<const float> rows) {
    insert(keys, rows);
  }
  // Many rows, at once or in turn; may cost less than insert and need not survive a crash before
  // finish_bulk returns. Not at the same time as other changes.
  virtual void bulk_insert(std::span<const int64_t> keys, std::span<const float> rows) {
    insert(keys, rows);
  }
  virtual void finish_bulk() {}
  virtual void erase(std::span<const int64_t> keys) = 0;
  virtual void clear() = 0;
  virtual int64_t size() const = 0;  // RocksDB: about

  // Where rows are evicted (store/overflow.h): the partitions, which have a margin each, and the
  // one that a key belongs to; and the rows that this process evicted so far.
  virtual size_t partitions() const { return 1; }
  virtual size_t partition_of(int64_t /*key*/) const { return 0; }
  virtual uint64_t evicted() const { return 0; }

  // Calls `take` with at most about `batch_rows` rows at a time, in no order. Rows that are not
  // changed meanwhile are given exactly once (Redis: at least once); a row that is changed is
  // given with its old or its new value.
  using Take = std::function<void(std::span<const int64_t> keys, std::span<const float> rows)>;
  virtual void iterate(int64_t batch_rows, const Take& take) const = 0;

  // From now on, fetch throws kUnavailable unless the store has this note (store/table_note.h),
  // with another content than `refused`: rows may be lost, or may not all be there yet. Keys of
  // partitions without its generation are unknown. Does nothing where only this process can remove
  // rows. To be called before others use the table.
  virtual void require_note(const std::string& /*note*/, const std::string& /*refused*/) {}

 protected:
  void check_sizes(std::span<const int64_t> keys, size_t floats) const {
    EMBLEM_REQUIRE(keys.size() * static_cast<size_t>(dim_) == floats, "table ", name_, ": ",
                   keys.size(), " keys of dimension ", dim_, " need ", keys.size() * dim_,
                   " floats, but there are ", floats);
  }
  void check_sizes(std::span<const int64_t> keys, size_t floats, size_t flags) const {
    check_sizes(keys, floats);
    EMBLEM_REQUIRE(keys.size() == flags, "table ", name_, ": ", flags, " places to say which of ",
                   keys.size(), " keys were found");
  }

 private:
  std::string name_;
  int64_t dim_;
};

// Fetches from several tables. Those in the same Redis cost one round trip to each of its nodes
// together. What goes wrong with a table is in its part's error.
void fetch_all(std::span<KvFetch> fetches);

class KvStore {
 public:
  virtual ~KvStore() = default;

  // The table of that name, made if there is none. Throws when it has rows of another dimension. It
  // can be used after it was dropped, and after the store is gone.
  virtual std::shared_ptr<KvTable> open(const std::string& name, int64_t dim) = 0;
  // Removes the table with all its rows; no error when there is none.
  virtual void drop(const std::string& name) = 0;
  // Whether rows survive the end of this process.
  virtual bool persistent() const = 0;

  // A short text kept with the tables: what they were filled from, how far updates got.
  virtual std::optional<std::string> note(const std::string& name) const = 0;
  virtual void set_note(const std::string& name, std::string_view text) = 0;

  virtual std::string describe() const = 0;  // "redis at 10.0.0.1:6379", for messages
};

}  // namespace emblem
