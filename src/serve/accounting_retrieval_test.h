// serve/accounting_retrieval_test.h - a model with an index, and requests that ask it for much, for
// tests of a server's accounts.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/math/random.h"
#include "retrieval/index.h"
#include "serve/accounting_requests_test.h"

namespace emblem {

inline constexpr int64_t kIndexedItems = 12'000, kIndexedDim = 8;

// Adds the model "items" of two towers to the repository, on `threads` threads. Untrained; the
// items are random.
inline void add_model_with_index(const std::string& folder, const std::string& repository,
                                 int threads) {
  const auto config = parse_pipeline(R"(
      train_input_path: "train" model_dir: "model"
      train_config { num_epochs: 1 sparse_optimizer { sgd_optimizer { lr: 0.1 } }
                     dense_optimizer { sgd_optimizer { lr: 0.1 } } }
      data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG batch_size: 64
                    label_fields: "clk" }
      feature_configs { id_feature { feature_name: "user" num_buckets: 50 embedding_dim: 4 } }
      feature_configs { id_feature { feature_name: "item" num_buckets: 50 embedding_dim: 4 } }
      model_config {
        feature_groups { group_name: "users" feature_names: "user" }
        feature_groups { group_name: "items" feature_names: "item" }
        dssm { user_tower { input: "users" mlp { hidden_units: 4 } }
               item_tower { input: "items" mlp { hidden_units: 4 } }
               output_dim: 8 in_batch_negative: true }
        losses { softmax_cross_entropy {} } metrics { recall_at_k {} } })",
                                     "items.config", {});
  check_pipeline(config);
  Learner learner(Context{}, config, layout_of(config), 64);
  Random random{3};
  std::vector<int64_t> ids(kIndexedItems);
  std::vector<float> vectors(kIndexedItems * kIndexedDim);
  for (int64_t i = 0; i < kIndexedItems; ++i) ids[i] = i;
  for (float& value : vectors) value = random.uniform() - 0.5f;
  const std::vector<uint64_t> attributes(kIndexedItems, 3);
  const auto index = Index::build({}, {.dim = kIndexedDim, .attributes = {"in_stock", "new"}},
                                  {ids, {vectors.data(), kIndexedItems, kIndexedDim}, attributes});
  const std::string model = repository + "/items";
  export_model(save_run(folder, learner, {}, config), model, 0, nullptr, nullptr,
               store_lock_options(), index.get());
  const std::string file = model + "/config.pbtxt";
  write_text_file_atomically(
      file, cat(read_text_file(file), "parameters { key: \"threads\" value { string_value: \"",
                threads, "\" } }\n"));
}

// What a request asks of "items".
struct ItemsAsked {
  size_t users = 1;
  std::string parameters;         // "top_k":5
  std::vector<int64_t> excluded;  // ids of each user; empty: no input exclude
  bool by_vector = false;
};

// The ids that each user excludes are the first ones.
inline std::string items_request(const ItemsAsked& asked) {
  const std::string users = std::to_string(asked.users);
  std::string json = R"({"inputs":[)", tensors;
  const auto add = [&](const std::string& name, const char* type, const std::string& shape,
                       const std::string& data) {
    json += (tensors.empty() ? "" : ",") + input(name, type, shape, binary_size(data.size()));
    tensors += data;
  };
  if (asked.by_vector)
    add("user_vector", "FP32", cat(users, ",", kIndexedDim),
        repeated(little_endian(0x3f000000u, 4), asked.users * kIndexedDim));
  else
    add("user", "INT64", users + ",1", std::string(asked.users * 8, '\0'));
  if (!asked.excluded.empty()) {
    std::string ids, offsets = little_endian(0, 8);
    for (size_t row = 0; row < asked.users; ++row) {
      const int64_t count = asked.excluded[row % asked.excluded.size()];
      for (int64_t i = 0; i < count; ++i) ids += little_endian(static_cast<uint64_t>(i), 8);
      offsets += little_endian(ids.size() / 8, 8);
    }
    add("exclude", "INT64", std::to_string(ids.size() / 8), ids);
    add("exclude.offsets", "INT64", std::to_string(asked.users + 1), offsets);
  }
  json += R"(],"parameters":{"binary_data_output":true)" +
          (asked.parameters.empty() ? "" : "," + asked.parameters) + "}}";
  return binary("items", json, tensors);
}

inline std::vector<HttpCase> item_search_cases() {
  const std::string most = R"("top_k":10000)";
  const std::string names = repeated("in_stock,new,", 300);
  return {
      {"the default", items_request({}), 200},
      {"all that can be asked for", items_request({.users = 100, .parameters = most}), 200},
      {"by vectors",
       items_request({.users = 100, .parameters = most, .excluded = {}, .by_vector = true}), 200},
      {"many users", items_request({.users = 10'000, .parameters = R"("top_k":1)", .excluded = {}}),
       200},
      {"small results of many users",
       items_request({.users = 4'000, .parameters = R"("top_k":300)", .excluded = {}}), 200},
      {"more than there is memory", items_request({.users = 8'000, .parameters = most}), 413},
      {"more than an answer may have", items_request({.users = 9'000, .parameters = most}), 400},
      {"ragged ids", items_request({.users = 200, .excluded = {0, 10'000, 5'000, 1}}), 200},
      {"ragged ids and many results",
       items_request({.users = 200, .parameters = most, .excluded = {10'000, 7}}), 200},
      {"too many ids", items_request({.users = 2, .excluded = {10'001}}), 400},
      {"repeated names of attributes",
       items_request({.users = 200, .parameters = R"("filter":")" + names + "\""}), 200},
      {"unknown attributes",
       items_request({.parameters = R"("filter":")" + repeated("a,", 2'000) + "\""}), 400},
      {"a long filter",
       items_request({.parameters = R"("filter":")" + repeated("new,", 500'000) + "\""}), 400},
  };
}

}  // namespace emblem
