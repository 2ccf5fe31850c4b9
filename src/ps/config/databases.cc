#include "ps/config/databases.h"

#include <algorithm>

#include "core/threads/thread_pool.h"
#include "store/rocksdb_store.h"

namespace emblem {
namespace {

RedisSettings redis_settings(const PsConfig& config) {
  const PsVolatile& db = config.volatile_db;
  return {.endpoints = parse_redis_endpoints(db.address),
          .user = db.user_name,
          .password = db.password,
          .tls = {db.enable_tls, db.tls_ca_certificate, db.tls_client_certificate,
                  db.tls_client_key, db.tls_server_name_identification},
          .partitions = db.num_partitions > 0 ? db.num_partitions : std::min(16, available_cpus()),
          .connections_per_node = db.num_node_connections,
          .max_batch = db.max_batch_size,
          .key_bytes = config.key_bytes(),
          .overflow = db.overflow,
          .row_checksums = db.row_checksums,
          .connect_timeout_ms = db.connect_timeout_ms,
          .request_timeout_ms = db.request_timeout_ms};
}

RocksDbSettings rocksdb_settings(const PsConfig& config) {
  const PsPersistent& db = config.persistent_db;
  return {.path = db.path,
          .threads = db.num_threads,
          .read_only = db.read_only,
          .max_batch = db.max_batch_size,
          .key_bytes = config.key_bytes()};
}

}  // namespace

Databases::Databases(const PsConfig& config) : read_only(config.persistent_db.read_only) {
  if (config.volatile_db.type == PsVolatile::Type::kRedis)
    redis = make_redis_store(redis_settings(config));
  if (config.persistent_db.type == PsPersistent::Type::kRocksDb)
    rocksdb = make_rocksdb_store(rocksdb_settings(config));
}

}  // namespace emblem
