// serve/accounting_requests_test.h - models, and requests that ask a server for much memory, for
// tests of its accounts.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/load/load.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "model/check/check.h"
#include "ps/remote/row_message.h"
#include "serve/grpc/raw_client_test.h"
#include "serve/grpc/service.pb.h"
#include "serve/http/client_test.h"
#include "serve/http/compress_test.h"
#include "serve/repository/export.h"
#include "train/learner/learner.h"
#include "train/state/run_state.h"

namespace emblem {

// "rows": 2 numbers and 2 ids; "bags": words and a sequence of clicks; "crossed": combinations of
// words, and clicks with attention; "computed": features of every other kind. All untrained.
class AccountingModels {
 public:
  AccountingModels() {
    add("rows", R"(
      data_config { dataset_type: CriteoTsvDataset fg_mode: FG_DAG batch_size: 64 }
      feature_configs { raw_feature { feature_name: "I1" } }
      feature_configs { raw_feature { feature_name: "I2" } }
      feature_configs { id_feature { feature_name: "C1" embedding_dim: 4 num_buckets: 50 } }
      feature_configs { id_feature { feature_name: "C2" embedding_dim: 4 hash_bucket_size: 30 } }
      model_config {
        feature_groups { group_name: "dense" feature_names: "I1" feature_names: "I2" }
        feature_groups { group_name: "sparse" feature_names: "C1" feature_names: "C2" }
        dlrm { dense_mlp { hidden_units: [8, 4] } final { hidden_units: [16] } }
        losses { binary_cross_entropy {} } metrics { auc { thresholds: 0 } } })");
    add("bags", R"(
      data_config { dataset_type: CsvDataset fg_mode: FG_DAG batch_size: 64 label_fields: "label" }
      feature_configs { id_feature {
        feature_name: "words" embedding_dim: 4 hash_bucket_size: 50 separator: "|" } }
      feature_configs { sequence_feature {
        sequence_name: "click" sequence_length: 1000000 sequence_delim: ";"
        features { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 4 } } } }
      model_config {
        feature_groups { group_name: "deep" feature_names: "words"
          sequence_groups { group_name: "click" feature_names: "click__item" }
          sequence_encoders { pooling_encoder { input: "click" } } }
        mmoe { expert_mlp { hidden_units: 5 } num_expert: 2
          task_towers { tower_name: "ctr" label_name: "label"
                        losses { binary_cross_entropy {} } metrics { auc {} } } } })");
    add("crossed", R"(
      data_config { dataset_type: CsvDataset fg_mode: FG_DAG batch_size: 64 label_fields: "label" }
      feature_configs { combo_feature {
        feature_name: "pairs" expression: "user:words" expression: "user:others"
        embedding_dim: 4 hash_bucket_size: 50 separator: "|" } }
      feature_configs { sequence_feature {
        sequence_name: "click" sequence_length: 1000 sequence_delim: ";"
        features { id_feature { feature_name: "item" num_buckets: 30 embedding_dim: 4 } } } }
      model_config {
        feature_groups { group_name: "deep" feature_names: "pairs"
          sequence_groups { group_name: "click" feature_names: "click__item" }
          sequence_encoders { self_attention_encoder {
            input: "click" multihead_attn_dim: 64 num_heads: 2 } } }
        mmoe { expert_mlp { hidden_units: 5 } num_expert: 2
          task_towers { tower_name: "ctr" label_name: "label"
                        losses { binary_cross_entropy {} } metrics { auc {} } } } })");
    add("computed", computed());
  }
  std::string repository() const { return folder_.path("repository"); }

 private:
  static constexpr char kTokens[] =
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";

  std::string computed() const {
    return R"(
      data_config { dataset_type: CsvDataset fg_mode: FG_DAG batch_size: 64 label_fields: "label" }
      feature_configs { lookup_feature { feature_name: "looked_up" map: "user:map" key: "user:key"
        separator: "|" } }
      feature_configs { match_feature { feature_name: "matched" nested_map: "user:nested"
        pkey: "item:color" skey: "item:brand" separator: ";" } }
      feature_configs { overlap_feature { feature_name: "overlap" query: "user:query"
        title: "item:title" method: "query_common_ratio" separator: "|" } }
      feature_configs { kv_dot_product { feature_name: "dot" query: "user:likes"
        document: "item:has" separator: "|" } }
      feature_configs { bool_mask_feature { feature_name: "mask" expression: "user:ids"
        expression: "user:valid" separator: "|" hash_bucket_size: 30 embedding_dim: 4 } }
      feature_configs { combine_feature { feature_name: "combined" expression: "user:event"
        separator: "|" num_buckets: 10 embedding_dim: 4 value_map { key: "a" value: 0 } } }
      feature_configs { tokenize_feature { feature_name: "tokens" expression: "user:text"
        vocab_file: ")" +
           folder_.write("tokens.json", kTokens) + R"(" embedding_dim: 4
        text_normalizer { norm_options: TEXT_FILTER } } }
      feature_configs { sequence_feature { sequence_name: "clicks" sequence_length: 100
        sequence_delim: ";"
        features { overlap_feature { feature_name: "both" query: "user:query" title: "item:items"
          method: "is_contain" separator: "|" } } } }
      model_config {
        feature_groups { group_name: "all" feature_names: ["looked_up", "matched", "overlap", "dot",
          "mask", "combined", "tokens"]
          sequence_groups { group_name: "clicks" feature_names: "clicks__both" }
          sequence_encoders { pooling_encoder { input: "clicks" } } }
        multi_tower { towers { input: "all" mlp { hidden_units: 4 } } final { hidden_units: 4 } }
        losses { binary_cross_entropy {} } metrics { auc {} } })";
  }

  void add(const std::string& name, const std::string& pipeline) {
    const auto config = parse_pipeline(R"(
      train_input_path: "train" eval_input_path: "test" model_dir: "model"
      train_config { num_epochs: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } }
                     dense_optimizer { sgd_optimizer { lr: 0.1 } } })" +
                                           pipeline,
                                       name + ".config", {});
    check_pipeline(config);
    Learner learner(Context{}, config, layout_of(config), 64);
    export_model(save_run(folder_.path("model_" + name), learner, {}, config),
                 repository() + "/" + name);
  }

  const TempFolder folder_;
};

struct HttpCase {
  std::string name, request;
  int status;  // that is expected
};
struct GrpcCase {
  std::string name, frames, status;
};

inline std::string repeated(const std::string& text, size_t count) {
  std::string all;
  all.reserve(text.size() * count);
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

// ---- HTTP ----

inline std::string posted(const std::string& target, const std::string& body,
                          const std::string& headers = "") {
  return TestClient::text("POST", target, body, headers);
}
inline std::string posted_gzip(const std::string& target, const std::string& body) {
  return posted(target, compressed(body, ContentEncoding::kGzip), "Content-Encoding: gzip\r\n");
}

inline std::string little_endian(uint64_t value, size_t bytes) {
  return {reinterpret_cast<const char*>(&value), bytes};
}

// Inputs in binary after JSON that describes them.
inline std::string binary(const std::string& model, const std::string& json,
                          const std::string& tensors) {
  return posted("/v2/models/" + model + "/infer", json + tensors,
                "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n");
}

inline std::string input(const std::string& name, const std::string& type, const std::string& shape,
                         const std::string& rest) {
  return R"({"name":")" + name + R"(","datatype":")" + type + R"(","shape":[)" + shape + "]," +
         rest + "}";
}
inline std::string binary_size(size_t bytes) {
  return R"("parameters":{"binary_data_size":)" + std::to_string(bytes) + "}";
}

inline std::string rows_in_binary(size_t rows, const std::string& more = "") {
  const std::string count = std::to_string(rows);
  const std::string json =
      R"({"inputs":[)" +
      input("categorical_features", "INT64", count + ",2", binary_size(rows * 16)) + "," +
      input("numerical_features", "FP32", count + ",2", binary_size(rows * 8)) + "]" + more + "}";
  return binary("rows", json, std::string(rows * 24, '\0'));
}

// One row of BYTES for each of the two inputs of "bags".
inline std::string bags_in_binary(const std::string& words, const std::string& clicks) {
  const std::string json =
      R"({"inputs":[)" + input("words", "BYTES", "1,1", binary_size(words.size() + 4)) + "," +
      input("click__item", "BYTES", "1,1", binary_size(clicks.size() + 4)) + "]}";
  return binary("bags", json,
                little_endian(words.size(), 4) + words + little_endian(clicks.size(), 4) + clicks);
}

// One row of "crossed".
inline std::string crossed_in_binary(const std::string& words, const std::string& clicks) {
  const auto text = [](const char* name, size_t bytes) {
    return input(name, "BYTES", "1,1", binary_size(bytes + 4));
  };
  const std::string json = R"({"inputs":[)" + text("words", words.size()) + "," +
                           text("others", words.size()) + "," + text("click__item", clicks.size()) +
                           "]}";
  const std::string of_words = little_endian(words.size(), 4) + words;
  return binary("crossed", json, of_words + of_words + little_endian(clicks.size(), 4) + clicks);
}

// One row of "computed", whose inputs are small but for those in `large`.
inline std::string computed_in_binary(std::map<std::string, std::string> large) {
  std::map<std::string, std::string> texts = {{"map", "a:1"},      {"key", "a"},
                                              {"nested", "a^b:1"}, {"color", "a"},
                                              {"brand", "b"},      {"query", "a|b"},
                                              {"title", "a"},      {"likes", "a:1"},
                                              {"has", "a:2"},      {"ids", "1|2"},
                                              {"valid", "1|0"},    {"event", "a"},
                                              {"text", "ab"},      {"clicks__items", "a;b"}};
  for (auto& [name, text] : large) texts.at(name) = std::move(text);
  std::string json = R"({"inputs":[)", tensors;
  for (const auto& [name, text] : texts) {
    json +=
        (tensors.empty() ? "" : ",") + input(name, "BYTES", "1,1", binary_size(text.size() + 4));
    tensors += little_endian(text.size(), 4) + text;
  }
  return binary("computed", json + "]}", tensors);
}

// Many values in the inputs of each computed feature.
inline std::vector<HttpCase> computed_cases() {
  constexpr size_t kMany = 200'000;
  std::string map, nested = "a^", pairs, words;
  for (size_t i = 0; i < kMany; ++i) {
    const std::string key = "k" + std::to_string(i);
    map += (i == 0 ? "" : "\x1d") + key + ":1";
    nested += key + ":1,";
    pairs += (i == 0 ? "" : "|") + key + ":2";
    words += (i == 0 ? "" : "|") + key;
  }
  std::string brands = words;
  std::replace(brands.begin(), brands.end(), '|', ';');
  const std::string ones = repeated("1|", kMany) + "1", letters = repeated("ab", 4 * kMany);
  const auto request = [](std::map<std::string, std::string> large) {
    return computed_in_binary(std::move(large));
  };
  return {
      {"small texts", request({}), 200},
      {"a large map", request({{"map", map}}), 200},
      {"many keys of a large map", request({{"map", map}, {"key", words}}), 200},
      {"a map of maps", request({{"nested", nested}, {"brand", brands}}), 200},
      {"many terms", request({{"query", words}, {"title", words}, {"clicks__items", "a"}}), 200},
      {"many weights", request({{"likes", pairs}, {"has", pairs}}), 200},
      {"a long mask", request({{"ids", ones}, {"valid", ones}}), 200},
      {"many words", request({{"event", repeated("a|", kMany) + "a"}}), 200},
      {"tokens of one word", request({{"text", letters}}), 200},
      {"a sequence of terms", request({{"clicks__items", repeated("a;", kMany) + "a"}}), 200},
      {"elements that read a long row",
       request({{"query", words}, {"clicks__items", repeated("a;", 99) + "a"}}), 400}};
}

// ---- HPS's models: keys in, rows out ----

inline constexpr int64_t kHpsDim = 16, kHpsRows = 1000;

// Model "tables" of one table with the keys [0, kHpsRows), in `databases` of ps.json. Returns the
// path of ps.json.
inline std::string write_hps(const std::string& folder, const std::string& databases) {
  const std::string model = folder + "/repository/tables", rows = folder + "/rows";
  std::filesystem::create_directories(model + "/1");
  std::filesystem::create_directories(rows);
  write_text_file_atomically(model + "/config.pbtxt", R"(name: "tables" backend: "hps"
      input { name: "KEYS" data_type: TYPE_INT64 dims: -1 }
      input { name: "NUMKEYS" data_type: TYPE_INT32 dims: -1 }
      output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 } max_batch_size: 0)");
  std::string keys;
  for (int64_t key = 0; key < kHpsRows; ++key) keys += little_endian(static_cast<uint64_t>(key), 8);
  write_text_file_atomically(rows + "/key", keys);
  write_text_file_atomically(rows + "/emb_vector", std::string(kHpsRows * kHpsDim * 4, '\0'));
  write_text_file_atomically(folder + "/ps.json",
                             cat(R"({"supportlonglong": true, )", databases,
                                 R"("models": [{"model": "tables", "sparse_files": [")", rows,
                                 R"("], "embedding_table_names": ["only"],
        "maxnum_catfeature_query_per_table_per_sample": [1000000], "max_batch_size": 1,
        "deployed_device_list": [0], "embedding_vecsize_per_table": [)",
                                 kHpsDim, R"(], "default_value_for_each_table": [0.5]}]})"));
  return folder + "/ps.json";
}

// Keys, of which the first `known` have rows; the others are all different.
inline std::string hps_request(int64_t keys, int64_t known) {
  std::string values;
  for (int64_t key = 0; key < keys; ++key)
    values +=
        little_endian(static_cast<uint64_t>(key < known ? key % kHpsRows : key + kHpsRows), 8);
  const std::string json =
      R"({"inputs":[)" + input("KEYS", "INT64", std::to_string(keys), binary_size(values.size())) +
      "," + input("NUMKEYS", "INT32", "1", binary_size(4)) +
      R"(],"parameters":{"binary_data_output":true}})";
  return binary("tables", json, values + little_endian(static_cast<uint64_t>(keys), 4));
}

// ---- inference ----

inline std::vector<HttpCase> http_inference_cases() {
  constexpr size_t kMany = 1'000'000;
  const std::string target = "/v2/models/rows/infer";
  const std::string shape = repeated("0,", 8 * kMany) + "0";
  const std::string outputs = repeated(R"({"name":"x"},)", kMany) + R"({"name":"x"})";
  const std::string name(16 * kMany, 'n');
  return {
      {"one row", rows_in_binary(1), 200},
      {"rows in binary", rows_in_binary(60'000), 200},
      {"rows in binary, answered in binary",
       rows_in_binary(60'000, R"(,"parameters":{"binary_data_output":true})"), 200},
      {"rows, classified",
       rows_in_binary(50'000,
                      R"(,"outputs":[{"name":"probability","parameters":{"classification":1}}])"),
       200},
      {"a long shape",
       posted_gzip(target, R"({"inputs":[)" + input("a", "FP32", shape, R"("data":[])") + "]}"),
       400},
      {"many outputs", posted_gzip(target, R"({"inputs":[],"outputs":[)" + outputs + "]}"), 400},
      {"many inputs",
       posted_gzip(target, R"({"inputs":[)" +
                               repeated(input("a", "FP32", "0", R"("data":[])") + ",", 300'000) +
                               "1]}"),
       400},
      {"a long name", posted_gzip(target, R"({"inputs":[{"name":")" + name + R"("}]})"), 400},
      {"a long id", posted_gzip(target, R"({"id":")" + name + R"("})"), 400},
      {"a long name of a member", posted_gzip(target, R"({")" + name + R"(":1})"), 400},
      {"a long number",
       posted_gzip(target, R"({"inputs":[{"shape":[)" + std::string(16 * kMany, '1') + "]}]}"),
       400},
      {"a long text",
       posted_gzip(target, R"({"inputs":[)" +
                               input("a", "BYTES", "1", R"("data":[")" + name + R"("])") + "]}"),
       400},
      {"many texts",
       posted_gzip(target, R"({"inputs":[)" +
                               input("a", "BYTES", std::to_string(kMany),
                                     R"("data":[)" + repeated(R"("a",)", kMany - 1) + R"("a"])") +
                               "]}"),
       400},
      {"many numbers",
       posted_gzip(target, R"({"inputs":[)" +
                               input("a", "FP64", std::to_string(4 * kMany),
                                     R"("data":[)" + repeated("1,", 4 * kMany - 1) + "1]") +
                               "]}"),
       400},
      {"words of a bag", bags_in_binary(repeated("a|", kMany) + "a", "1"), 200},
      {"elements of a sequence", bags_in_binary("a", repeated("1;", kMany / 2) + "1"), 200},
      {"empty elements of a sequence", bags_in_binary("a", std::string(kMany / 2, ';')), 200},
      {"combinations", crossed_in_binary(repeated("a|", 200) + "a", "1"), 200},
      {"too many combinations", crossed_in_binary(repeated("a|", 20'000) + "a", "1"), 400},
      {"attention", crossed_in_binary("a", repeated("1;", 999) + "1"), 200},
      {"attention of a cut sequence", crossed_in_binary("a", repeated("1;", kMany / 2) + "1"), 200},
  };
}

// Rows and bags of tables that are elsewhere, with as many different keys as there are.
inline std::vector<HttpCase> front_end_cases() {
  std::string words;
  for (int i = 0; i < 300'000; ++i) words += (i == 0 ? "" : "|") + std::to_string(i);
  return {{"one row", rows_in_binary(1), 200},
          {"rows", rows_in_binary(60'000), 200},
          {"words of a bag", bags_in_binary(words, "1"), 200},
          {"elements of a sequence", bags_in_binary("a", repeated("1;2;3;", 200'000) + "1"), 200}};
}

inline std::vector<HttpCase> http_path_cases() {
  std::vector<HttpCase> cases;
  const std::string text(16'000'000, ' ');
  for (const char* path :
       {"/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/rows/ready", "/v2/models/stats",
        "/v2/repository/index", "/v2/repository/models/rows/unload", "/v2/trace/setting",
        "/v2/logging", "/v2/systemsharedmemory/region/r/register",
        "/v2/cudasharedmemory/region/r/register", "/metrics", "/", "/nosuch"}) {
    cases.push_back({path, posted(path, text), 413});
    cases.push_back({std::string(path) + " compressed", posted_gzip(path, text), 413});
  }
  cases.push_back({"rows of no table server", posted_gzip("/v2/tables/rows", text), 501});
  cases.push_back({"status of no table server", posted_gzip("/v2/tables/status", text), 501});
  cases.push_back({"a configuration",
                   posted_gzip("/v2/repository/models/new/load",
                               R"({"parameters":{"config":")" + text + R"("}})"),
                   400});
  cases.push_back(
      {"a file",
       posted_gzip("/v2/repository/models/new/load",
                   R"({"parameters":{"file:1/x":")" + std::string(16'000'000, 'A') + R"("}})"),
       400});
  return cases;
}

// What a front end asks a table server: the versions that it uses.
inline std::string status_request(size_t versions) {
  StatusRequest request;
  request.in_use.resize(versions, {"a model", 1, 2});
  return posted(kStatusPath, encode(request));
}

inline std::string rows_request(const ModelId& model, size_t tables, size_t keys) {
  RowRequest request;
  request.model = model;
  request.tables.resize(tables, {keys > 0 ? "C1_emb" : "x", 4, std::vector<int64_t>(keys, 7)});
  return posted("/v2/tables/rows", encode(request));
}

// ---- gRPC ----

// A call with one compressed message.
inline std::string call_frames(const std::string& method, const std::string& message) {
  std::string framed(kGrpcPrefixBytes, '\0');
  framed += compressed(message, ContentEncoding::kGzip);
  write_prefix(framed, /*is_compressed=*/true);
  std::string frames =
      frame(kHeadersFrame, kEndHeaders, 1, request_block(method, {{"grpc-encoding", "gzip"}}));
  constexpr size_t kPiece = 16384;
  for (size_t at = 0; at < framed.size(); at += kPiece)
    frames += frame(kDataFrame, at + kPiece >= framed.size() ? kEndStream : 0, 1,
                    framed.substr(at, kPiece));
  return frames;
}

inline std::vector<GrpcCase> grpc_method_cases(const std::string& method) {
  constexpr size_t kMany = 8'000'000;
  return {
      {method + " of unknown fields", call_frames(method, repeated("\x78\x01", kMany)), ""},
      {method + " of empty parts", call_frames(method, repeated(std::string("\x2a\0", 2), kMany)),
       ""},
      {method + " of a long text",
       call_frames(method, std::string("\x0a\x80\x80\x80\x08") + std::string(1 << 24, 'x')), ""}};
}

inline std::vector<GrpcCase> grpc_inference_cases() {
  const std::string method = "/inference.GRPCInferenceService/ModelInfer";
  inference::ModelInferRequest rows;
  rows.set_model_name("rows");
  const auto add = [&](const char* name, const char* type, int64_t count) {
    auto* input = rows.add_inputs();
    input->set_name(name);
    input->set_datatype(type);
    input->add_shape(count);
    input->add_shape(2);
    return input;
  };
  constexpr int64_t kRows = 60'000;
  add("categorical_features", "INT64", kRows);
  add("numerical_features", "FP32", kRows);
  rows.add_raw_input_contents(std::string(kRows * 16, '\0'));
  rows.add_raw_input_contents(std::string(kRows * 8, '\0'));
  const std::string raw = rows.SerializeAsString();
  rows.clear_raw_input_contents();
  rows.clear_inputs();
  add("categorical_features", "INT64", kRows)
      ->mutable_contents()
      ->mutable_int64_contents()
      ->Resize(2 * kRows, 1);
  add("numerical_features", "FP32", kRows)
      ->mutable_contents()
      ->mutable_fp32_contents()
      ->Resize(2 * kRows, 1);
  const std::string typed = rows.SerializeAsString();
  rows.clear_inputs();
  auto* texts = add("a", "BYTES", 500'000)->mutable_contents();
  for (int i = 0; i < 1'000'000; ++i) texts->add_bytes_contents("a");
  const std::string strings = rows.SerializeAsString();
  rows.clear_inputs();
  add("a", "INT16", 1'000'000)->mutable_contents()->mutable_int_contents()->Resize(2'000'000, 1);
  const std::string narrow = rows.SerializeAsString();
  return {{"raw rows", call_frames(method, raw), "0"},
          {"raw rows of a stream",
           call_frames("/inference.GRPCInferenceService/ModelStreamInfer", raw), "0"},
          {"typed rows", call_frames(method, typed), "0"},
          {"texts", call_frames(method, strings), "3"},
          {"narrowed numbers", call_frames(method, narrow), "3"}};
}

}  // namespace emblem
