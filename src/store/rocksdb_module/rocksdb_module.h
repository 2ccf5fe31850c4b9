// store/rocksdb_module/rocksdb_module.h - what libemblem_rocksdb.so offers. It contains all code
// that calls RocksDB, and is compiled with the program that loads it.
#pragma once

#include <memory>

#include "store/rocksdb_store.h"

namespace emblem {

struct RocksDbModule {
  const char* version;  // kVersion of emblem/api.h
  // The folder exists, and as many threads as RocksDB starts can be started.
  std::unique_ptr<KvStore> (*open)(const RocksDbSettings& settings);
};

}  // namespace emblem

extern "C" const emblem::RocksDbModule* emblem_rocksdb_module();
