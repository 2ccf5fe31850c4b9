// store/rocksdb_store.h - tables on a local disk: a RocksDB folder with a column family per
// table, laid out as HPS lays out its own.
//
// Rows survive kill -9, each whole. A folder is open in one process at a time, unless read only.
#pragma once

#include <memory>
#include <string>

#include "store/kv_store.h"

namespace emblem {

#ifdef EMBLEM_WITH_ROCKSDB
inline constexpr bool kHasRocksDb = true;
#else
inline constexpr bool kHasRocksDb = false;
#endif

struct RocksDbSettings {
  std::string path;
  int threads = 16;                   // for compaction and flushes
  bool read_only = false;             // changes throw kInvalidArgument
  int64_t max_batch = 65536;          // keys a read or write
  size_t key_bytes = 8;               // or 4
  int64_t cache_bytes = 512ll << 20;  // bytes of blocks that were read
};

// Throws kInvalidArgument in a build without RocksDB, kUnavailable when the folder is in use.
std::unique_ptr<KvStore> make_rocksdb_store(const RocksDbSettings& settings);

}  // namespace emblem
