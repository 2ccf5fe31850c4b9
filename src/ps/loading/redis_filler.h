// ps/loading/redis_filler.h - brings the rows of tables into a Redis that several servers may
// share, once.
//
// A table has a note that stands for the content it was filled with (ps/tables/database_notes.h,
// store/table_note.h); a server that finds its own there writes nothing. Otherwise the server that
// gets the lock of the model (ps/tables/table_lock.h) fills, and the others wait for it, or serve
// from L3 meanwhile. The lock of a server that dies expires, and another one fills then.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "embedding/parts.h"
#include "ps/config/databases.h"
#include "ps/tables/served_model.h"
#include "ps/tables/table_lock.h"
#include "store/kv_store.h"

namespace emblem {

// Where a table's rows are copied from.
struct RowSource {
  std::string folder;                               // folder of the model's files
  std::shared_ptr<KvTable> l3;                      // null: from the files
  PartFilter filter = {};                           // which rows
  std::function<bool(int64_t key)> only = nullptr;  // which of these; null: all

  std::string describe() const { return l3 != nullptr ? "the database on disk" : folder; }
};

// Writes these rows into `to`; `before_batch`, which may throw, is called before each part of them.
// Rows with NaN or infinite values are logged and skipped; returns their number.
uint64_t copy_rows(
    const RowSource& from, KvTable& to, const std::function<void()>& before_batch = [] {});

// Thread-safe.
class RedisFiller {
 public:
  struct Table {
    std::string name;     // in Redis
    std::string content;  // content of its note
    RowSource source;
    std::shared_ptr<PartitionedTable> l2;  // the table in Redis
    std::shared_ptr<ServedTable> served;
  };

  explicit RedisFiller(Databases& databases);  // with Redis

  // Returns when Redis has the content of all tables, or when another server is filling it and the
  // tables have an L3 to be served from. `updates_included`: the last delta that the files contain.
  void fill(const std::string& model, std::span<const Table> tables, int64_t updates_included);

  // What Redis has lost of a table.
  struct Lost {
    std::vector<size_t> parts;   // partitions that cannot be read
    std::string generation{};    // generation of the others
    bool is_unfinished = false;  // all rows are to be written, unless another server is doing it
    bool has_no_marks = false;   // filled by a program that marked no partitions

    bool nothing() const { return parts.empty() && !is_unfinished && !has_no_marks; }
  };
  // Throws kUnavailable.
  Lost find_lost(const Table& table) const;
  // Fills it again, unless another server is doing it: then returns false. Throws kUnavailable.
  bool refill(const std::string& model, const Table& table, int64_t updates_included);

 private:
  enum class Filled { kAll, kByAnother };

  Filled try_fill(const std::string& model, std::span<const Table> tables,
                  int64_t updates_included);
  void begin(const std::string& model, const RowSource& source, int64_t updates_included);
  void begin_again(const std::string& model, const RowSource& source, int64_t updates_included);
  int64_t sequence_of(const std::string& model, const RowSource& source,
                      int64_t updates_included) const;
  void fill_table(const Table& table, TableLock& lock);
  void fill_parts(const Table& table, std::span<const size_t> parts, const std::string& generation,
                  TableLock& lock);
  void adopt(const Table& table, TableLock& lock);

  Databases& databases_;
  SharedKvStore& redis_;
};

}  // namespace emblem
