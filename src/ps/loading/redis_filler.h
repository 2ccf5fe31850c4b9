// ps/loading/redis_filler.h - brings the rows of tables into a Redis that several servers may
// share, once.
//
// A table has a note that stands for the content it was filled with (ps/tables/database_notes.h); a
// server that finds its own there writes nothing. Otherwise the server that gets the lock of the
// model (ps/tables/table_lock.h) fills, and the others wait for it, or serve from L3 meanwhile. The
// lock of a server that dies expires, and another one fills then.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "ps/config/databases.h"
#include "ps/loading/row_source.h"
#include "ps/tables/served_model.h"
#include "ps/tables/table_lock.h"

namespace emblem {

// Thread-safe.
class RedisFiller {
 public:
  struct Table {
    std::string name;     // in Redis
    std::string content;  // the text of its note
    RowSource source;
    std::shared_ptr<KvTable> l2;  // the table in Redis
  };

  explicit RedisFiller(Databases& databases);  // with Redis

  // Returns when Redis has the content of all tables, or when another server is filling it and the
  // tables have an L3 to be served from. `updates_included`: the last delta that the files contain.
  void fill(const std::string& model, std::span<const Table> tables, int64_t updates_included);

  // The tables of `model` are filled again should Redis lose them, by refill_lost().
  void guard(const std::shared_ptr<ServedModel>& model, std::vector<Table> tables,
             int64_t updates_included);
  // Fills what Redis has lost, and what a server that died has left half filled, unless another
  // server is doing it. Throws kUnavailable.
  void refill_lost();

 private:
  struct Guarded {
    std::weak_ptr<ServedModel> model;
    std::weak_ptr<ServedTable> served;
    Table table;
    int64_t updates_included = 0;
  };
  enum class Filled { kAll, kByAnother };

  Filled try_fill(const std::string& model, std::span<const Table> tables,
                  int64_t updates_included);
  void begin(const std::string& model, const RowSource& source, int64_t updates_included);
  void fill_table(const Table& table, TableLock& lock);
  void refill(const Guarded& lost);

  Databases& databases_;
  SharedKvStore& redis_;
  std::mutex mutex_;
  std::map<std::string, Guarded> guarded_;  // by the table's name in Redis
};

}  // namespace emblem
