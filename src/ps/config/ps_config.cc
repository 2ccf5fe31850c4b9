#include "ps/config/ps_config.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/load/name.h"
#include "core/files/file.h"
#include "core/system/log.h"
#include "core/text/json_error.h"
#include "core/text/json_field.h"
#include "core/text/shallow_json.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

void take(const JsonField& field, bool& value) { value = field.flag(); }
void take(const JsonField& field, std::string& value) { value = field.text(); }
void take(const JsonField& field, double& value) { value = field.number(); }
void take(const JsonField& field, float& value) { value = static_cast<float>(field.number()); }
void take(const JsonField& field, int64_t& value) { value = field.integer(); }
void take(const JsonField& field, uint64_t& value) {
  const bool is_large = field.json().is_number_unsigned();
  value = is_large ? field.json().get<uint64_t>() : static_cast<uint64_t>(field.integer(0));
}
void take(const JsonField& field, int& value) {
  const int64_t wide = field.integer();
  value = static_cast<int>(wide);
  if (value != wide) field.refuse("a whole number below 2^31");
}
template <class Value>
void take(const JsonField& field, std::vector<Value>& values) {
  values.resize(field.size());
  for (size_t i = 0; i < values.size(); ++i) take(field[i], values[i]);
}

// An object, all of whose keys have to be asked for before finish().
class JsonObject {
 public:
  explicit JsonObject(JsonField field) : field_(std::move(field)) { field_.require_object(); }

  const std::string& place() const { return field_.place(); }  // "ps.json.volatile_db"
  bool has(const char* key) const { return field_.has(key); }

  // Leaves `value` as it is when the key is absent.
  template <class Value>
  void read(const char* key, Value& value) {
    if (ignore(key)) take(field_[key], value);
  }
  // Throws when the key is absent.
  template <class Value>
  void require(const char* key, Value& value) {
    known_.insert(key);
    take(field_[key], value);
  }
  JsonObject object(const char* key) {  // throws when absent
    known_.insert(key);
    return JsonObject(field_[key]);
  }
  std::vector<JsonObject> objects(const char* key) {  // a list of them; throws when absent
    known_.insert(key);
    const JsonField list = field_[key];
    std::vector<JsonObject> objects;
    for (size_t i = 0; i < list.size(); ++i) objects.emplace_back(list[i]);
    return objects;
  }
  // Known, but without use; whether it is there.
  bool ignore(const char* key) {
    known_.insert(key);
    return has(key);
  }
  // Throws for the first key that was asked for by none of the above, with the nearest that was.
  void finish() const { field_.refuse_unknown({known_.begin(), known_.end()}); }

  [[noreturn]] void refuse(const char* key, std::string_view expected) const {
    field_[key].refuse(expected);
  }

 private:
  JsonField field_;
  std::set<std::string> known_;
};

using Notices = std::vector<std::string>;

template <class Value>
struct Choice {
  std::vector<std::string> names;  // the first is the one to use
  Value value;
};

template <class Value>
Value choose(JsonObject& object, const char* key, Value otherwise,
             const std::vector<Choice<Value>>& choices) {
  std::string name;
  object.read(key, name);
  if (!object.has(key)) return otherwise;
  std::string list;
  for (const auto& choice : choices) {
    if (std::count(choice.names.begin(), choice.names.end(), name) > 0) return choice.value;
    list += cat(list.empty() ? "" : ", ", choice.names.front());
  }
  object.refuse(key, cat("one of ", list));
}

// Keys of HPS without effect here, which one notice lists.
void ignore(JsonObject& object, std::initializer_list<const char*> keys, Notices& notices) {
  std::string list;
  for (const char* key : keys) {
    if (object.ignore(key)) list += cat(list.empty() ? "" : ", ", "\"", key, "\"");
  }
  if (!list.empty()) notices.push_back(cat(object.place(), ": without effect: ", list));
}

template <class Number>
void at_least(JsonObject& object, const char* key, Number value, Number least) {
  if (value < least) object.refuse(key, cat("a number of at least ", least));
}

void share(JsonObject& object, const char* key, double value) {
  if (!(value >= 0.0 && value <= 1.0)) object.refuse(key, "a number from 0 to 1");
}

void filters(JsonObject& object, std::vector<std::string>& filters) {
  object.read("update_filters", filters);
  for (const std::string& filter : filters) {
    try {
      const std::regex checked(filter);
    } catch (const std::regex_error& error) {
      object.refuse("update_filters",
                    cat("regular expressions; \"", filter, "\" is not one (", error.what(), ")"));
    }
  }
}

PsVolatile read_volatile(JsonObject object, Notices& notices) {
  PsVolatile db;
  using Type = PsVolatile::Type;
  db.type = choose<Type>(
      object, "type", Type::kDisabled,
      {{{"parallel_hash_map", "parallel_hashmap", "parallel_hash", "parallel_map"}, Type::kHashMap},
       {{"hash_map", "hashmap", "hash", "map"}, Type::kHashMap},
       {{"multi_process_hash_map", "multi_process_hashmap", "multi_process_hash",
         "multi_process_map"},
        Type::kHashMap},
       {{"redis_cluster", "redis"}, Type::kRedis},
       {{"disabled"}, Type::kDisabled}});
  std::string type;
  object.read("type", type);
  if (type.starts_with("multi_process")) {
    notices.push_back(cat(object.place(), ": \"type\" ", type,
                          ": every process keeps a map of its own, as with parallel_hash_map"));
  }
  object.read("address", db.address);
  object.read("user_name", db.user_name);
  object.read("password", db.password);
  object.read("num_partitions", db.num_partitions);
  if (object.has("num_partitions"))
    at_least<int64_t>(object, "num_partitions", db.num_partitions, 1);
  object.read("num_node_connections", db.num_node_connections);
  at_least(object, "num_node_connections", db.num_node_connections, 1);
  object.read("max_batch_size", db.max_batch_size);
  at_least<int64_t>(object, "max_batch_size", db.max_batch_size, 1);
  if (db.type == Type::kRedis && db.max_batch_size > 262143) {
    object.refuse("max_batch_size", "at most 262143, the most keys of a command of Redis");
  }
  object.read("enable_tls", db.enable_tls);
  object.read("tls_ca_certificate", db.tls_ca_certificate);
  object.read("tls_client_certificate", db.tls_client_certificate);
  object.read("tls_client_key", db.tls_client_key);
  object.read("tls_server_name_identification", db.tls_server_name_identification);
  object.read("overflow_margin", db.overflow.margin);
  at_least<uint64_t>(object, "overflow_margin", db.overflow.margin, 1);
  db.overflow.policy =
      choose<OverflowPolicy>(object, "overflow_policy", OverflowPolicy::kEvictRandom,
                             {{{"evict_random"}, OverflowPolicy::kEvictRandom},
                              {{"evict_least_used"}, OverflowPolicy::kEvictLeastUsed},
                              {{"evict_oldest"}, OverflowPolicy::kEvictOldest}});
  object.read("overflow_resolution_target", db.overflow.target);
  share(object, "overflow_resolution_target", db.overflow.target);
  object.read("overflow_may_lose_rows", db.overflow_may_lose_rows);
  object.read("row_checksums", db.row_checksums);
  object.read("ready_while_rows_are_lost", db.ready_while_rows_are_lost);
  db.row_type = choose<DType>(object, "row_precision", DType::kF32,
                              {{{"fp32"}, DType::kF32},
                               {{"bf16"}, DType::kBf16},
                               {{"fp16"}, DType::kF16},
                               {{"int8"}, DType::kInt8}});
  if (db.row_type != DType::kF32 && db.type != Type::kHashMap)
    object.refuse("row_precision", "fp32 for rows in Redis");
  object.read("cache_missed_embeddings", db.cache_missed_embeddings);
  filters(object, db.update_filters);
  double rate = 1.0;
  object.read("initial_cache_rate", rate);
  share(object, "initial_cache_rate", rate);
  if (rate != 1.0) {
    notices.push_back(cat(object.place(), ": \"initial_cache_rate\" has no effect: all rows are ",
                          "inserted, and overflow_margin says how many stay"));
  }
  ignore(object,
         {"allocation_rate", "shared_memory_size", "shared_memory_name",
          "shared_memory_auto_remove", "initialize_after_startup", "refresh_time_after_fetch",
          "max_get_batch_size", "max_set_batch_size"},
         notices);
  object.finish();
  return db;
}

PsPersistent read_persistent(JsonObject object, Notices& notices) {
  PsPersistent db;
  using Type = PsPersistent::Type;
  db.type = choose<Type>(
      object, "type", Type::kDisabled,
      {{{"rocks_db", "rocksdb", "rocks"}, Type::kRocksDb}, {{"disabled"}, Type::kDisabled}});
  db.path = (std::filesystem::temp_directory_path() / "rocksdb").string();
  object.read("path", db.path);
  object.read("num_threads", db.num_threads);
  at_least(object, "num_threads", db.num_threads, 1);
  object.read("read_only", db.read_only);
  object.read("max_batch_size", db.max_batch_size);
  at_least<int64_t>(object, "max_batch_size", db.max_batch_size, 1);
  filters(object, db.update_filters);
  ignore(object, {"initialize_after_startup", "max_get_batch_size", "max_set_batch_size"}, notices);
  object.finish();
  return db;
}

PsUpdateSource read_update_source(JsonObject object) {
  PsUpdateSource source;
  using Type = PsUpdateSource::Type;
  source.type = choose<Type>(object, "type", Type::kNone,
                             {{{"kafka_message_queue", "kafka_mq", "kafka"}, Type::kKafka},
                              {{"null", "none"}, Type::kNone}});
  object.read("brokers", source.brokers);
  object.read("metadata_refresh_interval_ms", source.metadata_refresh_interval_ms);
  at_least(object, "metadata_refresh_interval_ms", source.metadata_refresh_interval_ms, 10);
  object.read("receive_buffer_size", source.receive_buffer_size);
  at_least<int64_t>(object, "receive_buffer_size", source.receive_buffer_size, 1024);
  object.read("poll_timeout_ms", source.poll_timeout_ms);
  at_least(object, "poll_timeout_ms", source.poll_timeout_ms, 1);
  object.read("max_batch_size", source.max_batch_size);
  at_least<int64_t>(object, "max_batch_size", source.max_batch_size, 1);
  object.read("failure_backoff_ms", source.failure_backoff_ms);
  at_least(object, "failure_backoff_ms", source.failure_backoff_ms, 0);
  object.read("max_commit_interval", source.max_commit_interval);
  at_least(object, "max_commit_interval", source.max_commit_interval, 1);
  object.finish();
  return source;
}

void same_count(JsonObject& object, const char* key, size_t count, size_t tables) {
  if (count == tables) return;
  object.refuse(key, cat("one entry for each of the ", tables, " sparse_files"));
}

bool is_name(const std::string& name) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= 120 && std::all_of(name.begin(), name.end(), allowed);
}

void read_tables(JsonObject& object, PsModel& model, Notices& notices) {
  std::vector<std::string> folders, names;
  std::vector<int64_t> dims, keys;
  std::vector<float> defaults;
  object.require("sparse_files", folders);
  object.require("embedding_vecsize_per_table", dims);
  object.require("maxnum_catfeature_query_per_table_per_sample", keys);
  object.require("default_value_for_each_table", defaults);
  same_count(object, "embedding_vecsize_per_table", dims.size(), folders.size());
  same_count(object, "maxnum_catfeature_query_per_table_per_sample", keys.size(), folders.size());
  if (defaults.size() > folders.size()) {
    notices.push_back(cat(object.place(), ": \"default_value_for_each_table\" has ",
                          defaults.size(), " values for ", folders.size(),
                          " sparse_files; the first ", folders.size(), " are used"));
  }
  defaults.resize(folders.size());
  object.read("embedding_table_names", names);
  if (names.empty()) {
    for (size_t i = 0; i < folders.size(); ++i) names.push_back(cat("sparse_embedding", i));
  }
  same_count(object, "embedding_table_names", names.size(), folders.size());
  for (size_t i = 0; i < folders.size(); ++i) {
    if (const std::string problem = name_problem(names[i], kLongestTableName); !problem.empty())
      object.refuse("embedding_table_names",
                    cat("names of tables; \"", printable(names[i]), "\" ", problem));
    if (std::count(names.begin(), names.end(), names[i]) > 1) {
      object.refuse("embedding_table_names",
                    cat("unique names; \"", names[i], "\" is a duplicate"));
    }
    if (dims[i] < 1) object.refuse("embedding_vecsize_per_table", "sizes of 1 or more");
    model.tables.push_back({names[i], folders[i], dims[i], defaults[i], keys[i]});
  }
}

// Settings of the device cache; some keys also have the names of HPS's Python interface.
void read_cache(JsonObject& object, PsModel& model) {
  for (const char* key : {"gpucache", "use_gpu_embedding_cache"}) object.read(key, model.gpucache);
  for (const char* key : {"gpucacheper", "cache_size_percentage"}) {
    object.read(key, model.gpucacheper);
    share(object, key, model.gpucacheper);
  }
  object.read("hit_rate_threshold", model.hit_rate_threshold);
  object.read("cache_refresh_percentage_per_iteration",
              model.cache_refresh_percentage_per_iteration);
  share(object, "cache_refresh_percentage_per_iteration",
        model.cache_refresh_percentage_per_iteration);
  object.read("refresh_delay", model.refresh_delay_s);
  at_least(object, "refresh_delay", model.refresh_delay_s, 0.0);
  object.read("refresh_interval", model.refresh_interval_s);
  at_least(object, "refresh_interval", model.refresh_interval_s, 0.0);
  object.read("use_static_table", model.use_static_table);
  object.read("embedding_cache_type", model.embedding_cache_type);
  object.read("cache_type", model.embedding_cache_type);
  const auto types = {"dynamic", "static", "uvm", "stochastic"};
  if (std::count(types.begin(), types.end(), model.embedding_cache_type) == 0) {
    object.refuse("embedding_cache_type", "one of dynamic, static, uvm, stochastic");
  }
  object.read("init_ec", model.init_ec);
}

PsModel read_model(JsonObject object, Notices& notices) {
  PsModel model;
  object.read("model", model.name);
  if (!is_name(model.name)) {
    object.refuse("model", "a name of 1 to 120 letters, digits, _ and -");
  }
  read_tables(object, model, notices);
  object.read("dense_file", model.dense_file);
  object.read("max_batch_size", model.max_batch_size);
  at_least<int64_t>(object, "max_batch_size", model.max_batch_size, 1);
  object.require("deployed_device_list", model.deployed_devices);
  object.read("maxnum_des_feature_per_sample", model.dense_features);
  read_cache(object, model);
  ignore(object,
         {"num_of_worker_buffer_in_pool", "num_of_refresher_buffer_in_pool",
          "number_of_worker_buffers_in_pool", "number_of_refresh_buffers_in_pool",
          "thread_pool_size", "use_context_stream", "use_hctr_cache_implementation",
          "enable_pagelock", "fp8_quant", "fuse_embedding_table", "network_file", "label_dim",
          "slot_num", "cache_size_percentage_redis"},
         notices);
  object.finish();
  return model;
}

}  // namespace

PsConfig parse_ps_config(std::string_view text, const std::string& origin) {
  JsonField::Json json;
  try {
    json = JsonField::Json::parse(text, shallow_json);
  } catch (const JsonField::Json::exception& error) {
    throw Error(ErrorCode::kInvalidArgument,
                cat(origin, ": this is not JSON: ", json_problem(error.what())));
  }
  PsConfig config;
  JsonObject root({json, origin});
  root.read("supportlonglong", config.long_keys);
  if (!root.has("supportlonglong")) {
    config.notices.push_back(
        cat(origin, ": \"supportlonglong\" is missing; keys have 8 bytes, as with true"));
  }
  if (root.has("volatile_db")) {
    config.volatile_db = read_volatile(root.object("volatile_db"), config.notices);
  }
  if (root.has("persistent_db")) {
    config.persistent_db = read_persistent(root.object("persistent_db"), config.notices);
  }
  if (root.has("update_source")) {
    config.update_source = read_update_source(root.object("update_source"));
  }
  std::vector<JsonObject> models;
  if (root.has("models")) models = root.objects("models");
  for (JsonObject& model : models) {
    config.models.push_back(read_model(std::move(model), config.notices));
    const std::string& name = config.models.back().name;
    EMBLEM_REQUIRE(std::count_if(config.models.begin(), config.models.end(),
                                 [&](const PsModel& other) { return other.name == name; }) == 1,
                   origin, ": model \"", name, "\" is a duplicate");
  }
  ignore(root, {"fuse_embedding_table", "db_type", "redis_ip", "rocksdb_path"}, config.notices);
  for (const char* known : {"volatile_db", "persistent_db", "update_source"}) root.ignore(known);
  root.finish();
  EMBLEM_REQUIRE(config.volatile_db.type != PsVolatile::Type::kDisabled ||
                     config.persistent_db.type != PsPersistent::Type::kDisabled,
                 origin, ": both volatile_db and persistent_db are disabled: there is nothing to ",
                 "serve from; name a type for one of them");
  return config;
}

PsConfig load_ps_config(const std::string& path) {
  PsConfig config = parse_ps_config(read_text_file(path), path);
  for (const std::string& notice : config.notices) log_info(notice);
  return config;
}

bool passes_update_filters(const std::vector<std::string>& filters, const std::string& table) {
  return std::any_of(filters.begin(), filters.end(), [&](const std::string& filter) {
    if (filter.starts_with('^')) return std::regex_search(table, std::regex(filter));
    return std::regex_search(table, std::regex("^hps_et\\.(" + filter + ")\\..+$"));
  });
}

}  // namespace emblem
