#include "store/rocksdb_store.h"

#ifdef EMBLEM_WITH_ROCKSDB

#include <algorithm>

#include "core/files/file.h"
#include "core/system/module.h"
#include "core/threads/start_thread.h"
#include "emblem/api.h"
#include "store/rocksdb_module/rocksdb_module.h"

namespace emblem {
namespace {

const RocksDbModule& load_rocksdb() {
  decltype(emblem_rocksdb_module)* module = nullptr;
  load_module("rocksdb",
              "tables in RocksDB need it and librocksdb: install librocksdb-dev, or Emblem again")
      .find("emblem_rocksdb_module", module);
  const RocksDbModule& rocksdb = *module();
  if (rocksdb.version != std::string_view(kVersion))
    throw Error(ErrorCode::kUnsupported,
                cat(find_module("rocksdb"), " is of version ", rocksdb.version,
                    ", this library is ", kVersion, "; install Emblem again"));
  return rocksdb;
}

}  // namespace

std::unique_ptr<KvStore> make_rocksdb_store(const RocksDbSettings& settings) {
  EMBLEM_REQUIRE(!settings.path.empty(), "rocksdb: no path was given");
  EMBLEM_REQUIRE(settings.max_batch >= 1, "rocksdb: batches of ", settings.max_batch, " keys");
  static const RocksDbModule& rocksdb = load_rocksdb();
  // RocksDB aborts without its threads; one more is for timers.
  require_threads(std::max(1, settings.threads) + 1, "RocksDB");
  if (!settings.read_only) make_folders(settings.path);
  return rocksdb.open(settings);
}

}  // namespace emblem

#else

namespace emblem {

std::unique_ptr<KvStore> make_rocksdb_store(const RocksDbSettings&) {
  throw Error(ErrorCode::kInvalidArgument,
              "rocksdb was asked for, but this binary was built without it (install "
              "librocksdb-dev and rebuild with -DEMBLEM_ROCKSDB=ON)");
}

}  // namespace emblem

#endif
