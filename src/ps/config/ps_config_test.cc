#include "ps/config/ps_config.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

json least() {
  return json::parse(R"({
    "supportlonglong": true,
    "models": [{
      "model": "dlrm",
      "sparse_files": ["/models/dlrm/0", "/models/dlrm/1"],
      "embedding_vecsize_per_table": [16, 128],
      "maxnum_catfeature_query_per_table_per_sample": [1, 26],
      "default_value_for_each_table": [0.5],
      "deployed_device_list": [0]
    }]
  })");
}

PsConfig parse(const json& value) { return parse_ps_config(value.dump(), "ps.json"); }
auto refused(const std::string& text) { return ThrowsMessage<Error>(HasSubstr(text)); }
auto parsing(const json& value) {
  return [value] { parse(value); };
}

TEST(PsConfigTest, ModelsNeedNoEntry) {
  json value = least();
  value["models"] = json::array();
  EXPECT_TRUE(parse(value).models.empty());
  value.erase("models");
  EXPECT_TRUE(parse(value).models.empty());
}

TEST(PsConfigTest, TheDefaultsAreThoseOfHps) {
  const PsConfig config = parse(least());
  EXPECT_TRUE(config.long_keys);
  EXPECT_EQ(config.volatile_db.type, PsVolatile::Type::kHashMap);  // without a block
  EXPECT_EQ(config.volatile_db.overflow.margin, UINT64_MAX);
  EXPECT_EQ(config.volatile_db.overflow.target, 0.8);
  EXPECT_EQ(config.volatile_db.max_batch_size, 65536);
  EXPECT_FALSE(config.volatile_db.cache_missed_embeddings);
  EXPECT_EQ(config.persistent_db.type, PsPersistent::Type::kDisabled);
  EXPECT_EQ(config.update_source.type, PsUpdateSource::Type::kNone);
  ASSERT_EQ(config.models.size(), 1u);
  const PsModel& model = config.models[0];
  EXPECT_EQ(model.name, "dlrm");
  EXPECT_EQ(model.max_batch_size, 64);
  EXPECT_EQ(model.gpucacheper, 0.2);
  EXPECT_EQ(model.hit_rate_threshold, 0.9);
  EXPECT_EQ(model.dense_features, 26);
  ASSERT_EQ(model.tables.size(), 2u);
  EXPECT_EQ(model.tables[0].name, "sparse_embedding0");
  EXPECT_EQ(model.tables[1].folder, "/models/dlrm/1");
  EXPECT_EQ(model.tables[1].dim, 128);
  EXPECT_EQ(model.tables[0].default_value, 0.5f);
  EXPECT_EQ(model.tables[1].default_value, 0.0f);  // padded
  EXPECT_EQ(model.tables[1].max_keys_per_sample, 26);
  EXPECT_THAT(config.notices, IsEmpty());
}

TEST(PsConfigTest, EmblemsOwnKeysOfRedisAreRead) {
  json value = least();
  value["volatile_db"] = json::parse(R"({"type": "redis_cluster"})");
  EXPECT_TRUE(parse(value).volatile_db.row_checksums);
  EXPECT_TRUE(parse(value).volatile_db.ready_while_rows_are_lost);
  value["volatile_db"]["row_checksums"] = false;
  value["volatile_db"]["ready_while_rows_are_lost"] = false;
  EXPECT_FALSE(parse(value).volatile_db.row_checksums);
  EXPECT_FALSE(parse(value).volatile_db.ready_while_rows_are_lost);
}

TEST(PsConfigTest, EveryKeyOfHpsIsKnown) {
  json value = least();
  value["fuse_embedding_table"] = true;
  value["volatile_db"] = json::parse(R"({
    "type": "redis_cluster", "address": "10.0.0.1:7000,10.0.0.2:7000", "user_name": "u",
    "password": "p", "num_partitions": 15, "allocation_rate": 268435456,
    "shared_memory_size": 17179869184, "shared_memory_name": "x", "shared_memory_auto_remove": true,
    "num_node_connections": 3, "max_batch_size": 1000, "enable_tls": true,
    "tls_ca_certificate": "ca", "tls_client_certificate": "cert", "tls_client_key": "key",
    "tls_server_name_identification": "redis.local", "overflow_margin": 18446744073709551615,
    "overflow_policy": "evict_oldest", "overflow_resolution_target": 0.5,
    "initial_cache_rate": 0.4, "cache_missed_embeddings": true, "update_filters": [".+"],
    "initialize_after_startup": true
  })");
  value["persistent_db"] = json::parse(R"({
    "type": "rocks_db", "path": "/data/rocks", "num_threads": 4, "read_only": true,
    "max_batch_size": 77, "update_filters": ["^hps_et\\.dlrm\\..+$"],
    "initialize_after_startup": true
  })");
  value["update_source"] = json::parse(R"({
    "type": "kafka_message_queue", "brokers": "a:9092;b:9092", "metadata_refresh_interval_ms": 1000,
    "receive_buffer_size": 4096, "poll_timeout_ms": 5, "max_batch_size": 6,
    "failure_backoff_ms": 7, "max_commit_interval": 8
  })");
  value["models"][0].update(json::parse(R"({
    "dense_file": "d", "max_batch_size": 10, "gpucache": false, "gpucacheper": 0.5,
    "hit_rate_threshold": 1.1, "num_of_worker_buffer_in_pool": 3,
    "num_of_refresher_buffer_in_pool": 1, "cache_refresh_percentage_per_iteration": 0.2,
    "maxnum_des_feature_per_sample": 13, "refresh_delay": 1, "refresh_interval": 2.5,
    "embedding_table_names": ["a", "b"], "fuse_embedding_table": true, "use_static_table": true,
    "embedding_cache_type": "static", "use_context_stream": true,
    "use_hctr_cache_implementation": true, "thread_pool_size": 16, "init_ec": false,
    "enable_pagelock": false, "fp8_quant": false, "network_file": "n", "label_dim": 1, "slot_num": 26
  })"));
  const PsConfig config = parse(value);
  const PsVolatile& l2 = config.volatile_db;
  EXPECT_EQ(l2.type, PsVolatile::Type::kRedis);
  EXPECT_EQ(l2.address, "10.0.0.1:7000,10.0.0.2:7000");
  EXPECT_EQ(l2.num_partitions, 15);
  EXPECT_EQ(l2.num_node_connections, 3);
  EXPECT_TRUE(l2.enable_tls);
  EXPECT_EQ(l2.tls_server_name_identification, "redis.local");
  EXPECT_EQ(l2.overflow.margin, UINT64_MAX);
  EXPECT_EQ(l2.overflow.policy, OverflowPolicy::kEvictOldest);
  EXPECT_EQ(l2.overflow.target, 0.5);
  EXPECT_TRUE(l2.cache_missed_embeddings);
  EXPECT_EQ(config.persistent_db.path, "/data/rocks");
  EXPECT_TRUE(config.persistent_db.read_only);
  EXPECT_EQ(config.persistent_db.max_batch_size, 77);
  EXPECT_EQ(config.update_source.brokers, "a:9092;b:9092");
  EXPECT_EQ(config.update_source.max_commit_interval, 8);
  const PsModel& model = config.models[0];
  EXPECT_EQ(model.tables[1].name, "b");
  EXPECT_EQ(model.refresh_interval_s, 2.5);
  EXPECT_EQ(model.dense_features, 13);
  EXPECT_EQ(model.embedding_cache_type, "static");
  EXPECT_FALSE(model.gpucache);
  // What has no effect is said.
  for (const char* key : {"network_file", "label_dim", "slot_num", "initialize_after_startup",
                          "initial_cache_rate", "allocation_rate", "thread_pool_size"}) {
    EXPECT_THAT(config.notices, Contains(HasSubstr(key)));
  }
  EXPECT_THAT(config.notices,
              Contains(AllOf(HasSubstr("ps.json.models[0]: without effect: "),
                             HasSubstr("\"slot_num\""), HasSubstr("\"network_file\""))));
}

// Files of releases before 22.10, and of samples written for them.
TEST(PsConfigTest, OlderFilesAreRead) {
  json value = least();
  value.erase("supportlonglong");
  value["db_type"] = "local";
  for (const char* db : {"volatile_db", "persistent_db"})
    value[db] = {{"type", "disabled"}, {"max_get_batch_size", 100000}, {"max_set_batch_size", 1}};
  value["volatile_db"]["type"] = "hash_map";
  value["models"][0]["default_value_for_each_table"] = {0.5, 1, 2};
  const PsConfig config = parse(value);
  EXPECT_TRUE(config.long_keys);
  EXPECT_EQ(config.models[0].tables[1].default_value, 1.0f);
  EXPECT_THAT(
      config.notices,
      ElementsAre(
          HasSubstr("\"supportlonglong\" is missing"),
          "ps.json.volatile_db: without effect: \"max_get_batch_size\", \"max_set_batch_size\"",
          HasSubstr("ps.json.persistent_db: without effect"),
          HasSubstr("has 3 values for 2 sparse_files"), "ps.json: without effect: \"db_type\""));
}

TEST(PsConfigTest, TheCacheMayBeDescribedWithTheNamesOfThePythonInterface) {
  json value = least();
  value["models"][0]["use_gpu_embedding_cache"] = false;
  value["models"][0]["cache_size_percentage"] = 0.75;
  value["models"][0]["cache_type"] = "uvm";
  const PsModel model = parse(value).models[0];
  EXPECT_FALSE(model.gpucache);
  EXPECT_EQ(model.gpucacheper, 0.75);
  EXPECT_EQ(model.embedding_cache_type, "uvm");
}

TEST(PsConfigTest, TypesHaveAliases) {
  json value = least();
  for (const char* name : {"hash_map", "hashmap", "hash", "map", "parallel_hash_map",
                           "parallel_hashmap", "parallel_hash", "parallel_map"}) {
    value["volatile_db"] = {{"type", name}};
    EXPECT_EQ(parse(value).volatile_db.type, PsVolatile::Type::kHashMap) << name;
  }
  value["volatile_db"] = {{"type", "multi_process_hash_map"}};
  EXPECT_THAT(parse(value).notices, Contains(HasSubstr("a map of its own")));
  value["volatile_db"] = {{"type", "redis"}};
  EXPECT_EQ(parse(value).volatile_db.type, PsVolatile::Type::kRedis);
  value["volatile_db"] = json::object();  // a block without a type
  for (const char* name : {"rocks_db", "rocksdb", "rocks"}) {
    value["persistent_db"] = {{"type", name}};
    EXPECT_EQ(parse(value).persistent_db.type, PsPersistent::Type::kRocksDb) << name;
    EXPECT_EQ(parse(value).volatile_db.type, PsVolatile::Type::kDisabled);
  }
}

TEST(PsConfigTest, UnknownKeysAreNamedWithTheirPlaceAndTheNearest) {
  json value = least();
  value["volatil_db"] = json::object();
  EXPECT_THAT(parsing(value), refused("ps.json has an unknown field \"volatil_db\"; did you mean "
                                      "\"volatile_db\"?"));
  value = least();
  value["volatile_db"] = {{"type", "hash_map"}, {"overflow_polcy", "x"}};
  EXPECT_THAT(parsing(value),
              refused("ps.json.volatile_db has an unknown field \"overflow_polcy\"; "
                      "did you mean \"overflow_policy\"?"));
  value = least();
  value["models"][0]["gpucachper"] = 0.5;
  EXPECT_THAT(parsing(value), refused("ps.json.models[0] has an unknown field \"gpucachper\""));
  value = least();
  value["persistent_db"] = {{"zzzzzz", 1}};
  EXPECT_THAT(parsing(value), refused("persistent_db has an unknown field \"zzzzzz\""));
}

TEST(PsConfigTest, MissingKeysAndWrongTypesAreNamed) {
  for (const char* key :
       {"sparse_files", "deployed_device_list", "embedding_vecsize_per_table",
        "maxnum_catfeature_query_per_table_per_sample", "default_value_for_each_table"}) {
    json value = least();
    value["models"][0].erase(key);
    EXPECT_THAT(parsing(value), refused(cat("models[0] has no \"", key, "\"")));
  }
  json value = least();
  value["models"] = 5;
  EXPECT_THAT(parsing(value), refused("ps.json.models is 5; expected a list"));
  value = least();
  value["supportlonglong"] = "yes";
  EXPECT_THAT(parsing(value), refused("supportlonglong is \"yes\"; expected true or false"));
  value = least();
  value["volatile_db"] = {{"num_partitions", 1.5}};
  EXPECT_THAT(parsing(value), refused("num_partitions is 1.5; expected a whole number"));
  value["volatile_db"] = {{"num_partitions", 1u << 31}, {"num_node_connections", 1u << 31}};
  EXPECT_THAT(parsing(value),
              refused("num_node_connections is 2147483648; expected a whole number below 2^31"));
  value["volatile_db"] = {{"num_partitions", UINT64_MAX}};
  EXPECT_THAT(parsing(value), refused("num_partitions is 18446744073709551615; expected a whole"));
  value["volatile_db"] = {{"type", "hash_map"}, {"num_partitions", 2.0}};
  EXPECT_EQ(parse(value).volatile_db.num_partitions, 2);
  value["volatile_db"] = {{"overflow_margin", -1}};
  EXPECT_THAT(parsing(value), refused("a whole number of at least 0"));
  value["volatile_db"] = {{"type", "memory"}};
  EXPECT_THAT(parsing(value), refused("one of parallel_hash_map, hash_map"));
  value["volatile_db"] = {{"update_filters", {"("}}};
  EXPECT_THAT(parsing(value), refused("expected regular expressions; \"(\" is not one"));
  value["volatile_db"] = 3;
  EXPECT_THAT(parsing(value), refused("ps.json.volatile_db is 3; expected an object"));
  value = least();
  value["models"][0]["sparse_files"] = {1};
  EXPECT_THAT(parsing(value), refused("sparse_files[0] is 1; expected text"));
}

TEST(PsConfigTest, ListsOfTablesMustHaveTheSameLength) {
  json value = least();
  value["models"][0]["embedding_vecsize_per_table"] = {16};
  EXPECT_THAT(parsing(value), refused("one entry for each of the 2 sparse_files"));
  value = least();
  value["models"][0]["embedding_table_names"] = {"a", "a"};
  EXPECT_THAT(parsing(value), refused("\"a\" is a duplicate"));
  value["models"][0]["embedding_table_names"] = {"a", "b/c"};
  EXPECT_THAT(parsing(value), refused("\"b/c\" contains \"/\""));
  value = least();
  value["models"].push_back(value["models"][0]);
  EXPECT_THAT(parsing(value), refused("model \"dlrm\" is a duplicate"));
}

TEST(PsConfigTest, WithoutAnyDatabaseThereIsNothingToServe) {
  json value = least();
  value["volatile_db"] = {{"type", "disabled"}};
  EXPECT_THAT(parsing(value), refused("both volatile_db and persistent_db are disabled"));
}

TEST(PsConfigTest, WhatIsNotJsonIsRefused) {
  EXPECT_THAT(
      [] { parse_ps_config("{\"a\": }", "f.json"); },
      ThrowsMessage<Error>(AllOf(HasSubstr("f.json: this is not JSON"), HasSubstr("line 1"))));
  EXPECT_THAT([] { parse_ps_config("[]", "f.json"); }, refused("f.json is []; expected an object"));
  TempFolder folder;
  EXPECT_THROW(load_ps_config(folder.path("none.json")), Error);
  EXPECT_EQ(load_ps_config(folder.write("ps.json", least().dump())).models.size(), 1u);
}

TEST(PsConfigTest, UpdateFiltersChooseTables) {
  const std::string table = "hps_et.dlrm.users";
  EXPECT_TRUE(passes_update_filters({"^hps_.+$"}, table));  // HPS's default
  EXPECT_TRUE(passes_update_filters({".+"}, table));
  EXPECT_TRUE(passes_update_filters({"wdl", "dlrm"}, table));
  EXPECT_FALSE(passes_update_filters({"dl"}, table));
  EXPECT_FALSE(passes_update_filters({"users"}, table));  // a model's name is asked for
  EXPECT_TRUE(passes_update_filters({"^hps_et\\.dlrm\\.u"}, table));
  EXPECT_FALSE(passes_update_filters({}, table));
}

}  // namespace
}  // namespace emblem
