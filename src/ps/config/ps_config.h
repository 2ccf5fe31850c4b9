// ps/config/ps_config.h - HPS's ps.json: which databases hold the rows of which models.
//
// Keys and defaults are those of HPS; what it documents but never reads, or what has no meaning
// here, is accepted and listed in `notices`. Everything else that is unknown is an error.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/math/half.h"
#include "store/overflow.h"

namespace emblem {

struct PsVolatile {
  enum class Type { kDisabled, kHashMap, kRedis };
  Type type = Type::kHashMap;  // without the block in the file; with a block that names none: none
  std::string address = "127.0.0.1:7000";
  std::string user_name = "default";
  std::string password;
  int64_t num_partitions = 0;  // 0: as many as CPUs, at most 16
  int num_node_connections = 5;
  int64_t max_batch_size = 65536;
  bool enable_tls = false;
  std::string tls_ca_certificate;
  std::string tls_client_certificate;
  std::string tls_client_key;
  std::string tls_server_name_identification;
  Overflow overflow;
  // Not a key of HPS. Without L3, rows beyond the margin are lost: false refuses to load such a
  // table, true evicts them as HPS does.
  bool overflow_may_lose_rows = false;
  // Not a key of HPS. Rows in Redis have a checksum each; false: as HPS writes and reads them.
  bool row_checksums = true;
  // Not a key of HPS. Whether the server is ready while Redis has lost rows that are served from
  // elsewhere, until they are filled in again.
  bool ready_while_rows_are_lost = true;
  // Not a key of HPS: what rows in memory are rounded to.
  DType row_type = DType::kF32;
  bool cache_missed_embeddings = false;
  std::vector<std::string> update_filters = {"^hps_.+$"};
  // Not in ps.json: how long Redis may take.
  int connect_timeout_ms = 500;
  int request_timeout_ms = 2000;
};

struct PsPersistent {
  enum class Type { kDisabled, kRocksDb };
  Type type = Type::kDisabled;
  std::string path;  // <temporary folder>/rocksdb
  int num_threads = 16;
  bool read_only = false;
  int64_t max_batch_size = 65536;
  std::vector<std::string> update_filters = {"^hps_.+$"};
};

struct PsUpdateSource {
  enum class Type { kNone, kKafka };
  Type type = Type::kNone;
  std::string brokers = "127.0.0.1:9092";  // separated by ';' or ','
  int metadata_refresh_interval_ms = 30000;
  int64_t receive_buffer_size = 262144;
  int poll_timeout_ms = 500;
  int64_t max_batch_size = 8192;
  int failure_backoff_ms = 50;
  int max_commit_interval = 32;
};

struct PsModel {
  struct Table {
    std::string name;
    std::string folder;
    int64_t dim = 0;
    float default_value = 0.0f;
    int64_t max_keys_per_sample = 0;
  };
  std::string name;
  std::vector<Table> tables;
  std::string dense_file;
  int64_t max_batch_size = 64;
  std::vector<int64_t> deployed_devices;
  int64_t dense_features = 26;
  // Settings of the device cache.
  bool gpucache = true;
  double gpucacheper = 0.2;  // share of the rows
  double hit_rate_threshold = 0.9;
  double cache_refresh_percentage_per_iteration = 0.0;
  double refresh_delay_s = 0.0;
  double refresh_interval_s = 0.0;
  bool use_static_table = false;
  std::string embedding_cache_type = "dynamic";
  bool init_ec = true;
};

struct PsConfig {
  bool long_keys = true;  // "supportlonglong": keys of 8 bytes in databases and messages, else 4
  PsVolatile volatile_db;
  PsPersistent persistent_db;
  PsUpdateSource update_source;
  std::vector<PsModel> models;
  std::vector<std::string> notices;  // what was in the file and has no effect

  size_t key_bytes() const { return long_keys ? 8 : 4; }
};

// `origin` stands in front of messages: the path of the file. Throws kInvalidArgument.
PsConfig parse_ps_config(std::string_view text, const std::string& origin);
// Logs the notices.
PsConfig load_ps_config(const std::string& path);

// Whether updates of a table go to a database with these filters. A filter that begins with '^' is
// searched in the table's full name (hps_et.MODEL.TABLE); any other must match the model's name,
// which is how HPS uses them.
bool passes_update_filters(const std::vector<std::string>& filters, const std::string& table);

}  // namespace emblem
