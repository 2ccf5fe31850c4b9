// serve/repository/index_version_test.h - a repository with a version that has an index of items.
#pragma once

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/text/text.h"
#include "retrieval/index.h"
#include "serve/repository/model_server.h"
#include "serve/repository/small_model_test.h"
#include "train/predict/item_vectors.h"
#include "train/state/restored.h"

namespace emblem {
// A repository with the model "rec", whose first version has an index.
class IndexVersionTest : public testing::Test {
 protected:
  static constexpr int64_t kItems = 60, kUsers = 20, kFirstId = 1000;
  static constexpr int64_t kNoItemId = std::numeric_limits<int64_t>::min();

  static constexpr const char* kMatchingPipeline = R"(
train_input_path: "train" model_dir: "model"
train_config { sparse_optimizer { adagrad_optimizer { lr: 0.02 } }
               dense_optimizer { adam_optimizer { lr: 0.002 } } num_epochs: 1 }
data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG batch_size: 16
              label_fields: "clk" }
feature_configs { id_feature { feature_name: "user" num_buckets: 20 embedding_dim: 4 } }
feature_configs { raw_feature { feature_name: "age" } }
feature_configs { id_feature { feature_name: "item" num_buckets: 60 embedding_dim: 4 } }
feature_configs { raw_feature { feature_name: "price" } }
feature_configs { sequence_feature { sequence_name: "seen" sequence_length: 5 sequence_delim: "|"
  features { id_feature { feature_name: "item" num_buckets: 60 embedding_dim: 4 } } } }
model_config {
  feature_groups { group_name: "users" feature_names: "user" feature_names: "age"
    sequence_groups { group_name: "seen" feature_names: "seen__item" }
    sequence_encoders { pooling_encoder {} } }
  feature_groups { group_name: "items" feature_names: "item" feature_names: "price" }
  dssm { user_tower { input: "users" mlp { hidden_units: [8] } }
         item_tower { input: "items" mlp { hidden_units: [8] } }
         output_dim: 6 similarity: COSINE in_batch_negative: true temperature: 0.1 }
  losses { softmax_cross_entropy {} } metrics { recall_at_k { top_k: 1 } }
}
)";

  static inline const ItemColumns kColumns{.id = "sku", .attributes = {"in_stock", "new"}};

  // The attributes of item i.
  static bool is_in_stock(int64_t item) { return item % 3 != 0; }
  static bool is_new(int64_t item) { return item % 4 == 0; }

  IndexVersionTest() {
    std::string items = "sku,item,price,in_stock,new\n", users = "user,age,seen__item\n";
    for (int64_t i = 0; i < kItems; ++i)
      items += cat(kFirstId + i, ",", i, ",0.", i, ",", is_in_stock(i) ? "1" : "0", ",",
                   is_new(i) ? "true" : "", "\n");
    for (int64_t u = 0; u < kUsers; ++u) users += cat(u, ",0.", u, ",", u, "|", u + 1, "\n");
    folder_.write("items.csv", items);
    folder_.write("users.csv", users);
    checkpoint_ = checkpoint_of(kMatchingPipeline, "model", 1);
    export_version();
  }

  // A checkpoint with the initial values of `seed`.
  std::string checkpoint_of(const std::string& pipeline, const std::string& name, int64_t seed) {
    const std::vector<std::string> changes = {cat("train_config.seed=", seed)};
    config::PipelineConfig config = parse_pipeline(pipeline, "matching.config", changes);
    check_pipeline(config);
    Learner learner(Context{}, config, layout_of(config), 16);
    return save_run(folder_.path(name), learner, {}, config);
  }

  EncodedItems encoded(const std::string& checkpoint, const std::string& items = "items.csv",
                       const ItemColumns& columns = kColumns) const {
    RestoredModel model({}, checkpoint, "", {}, World::alone(), RestoredFor::kPrediction);
    return encode_items(model, folder_.path(items), columns);
  }

  ExportedModel export_version(const IndexSettings& settings = {.similarity = Similarity::kCosine},
                               const std::string& name = "rec") {
    const EncodedItems items = encoded(checkpoint_);
    IndexSettings complete = settings;
    complete.dim = items.dim;
    complete.attributes = kColumns.attributes;
    index_ = Index::build({}, complete,
                          {items.ids, {items.vectors.data(), kItems, items.dim}, items.attributes});
    return export_model(checkpoint_, repository() + "/" + name, 0, nullptr, nullptr,
                        store_lock_options(), index_.get());
  }

  std::string repository() const { return folder_.path("repository"); }
  std::string version() const { return repository() + "/rec/1"; }

  // The vectors of users.csv, by the trained model.
  std::vector<float> user_vectors(const std::string& checkpoint) const {
    RestoredModel model({}, checkpoint, "", {}, World::alone(), RestoredFor::kPrediction);
    const std::vector<std::string> outputs = {"user_tower_emb"};
    return model.predict(folder_.path("users.csv"), outputs).values;
  }

  // The inputs of a request, and their memory.
  struct Sent {
    std::vector<int64_t> users, exclude, top_k;
    std::vector<int32_t> lengths;
    std::vector<float> ages, vectors;
    std::string seen;
  };

  template <class T>
  static InputTensor tensor(const std::string& name, DataType type, std::vector<int64_t> shape,
                            const std::vector<T>& values) {
    return {name, type, std::move(shape), std::as_bytes(std::span(values))};
  }

  // Users [first, first + rows) of users.csv.
  std::unique_ptr<InferRequest> request(int64_t first, int64_t rows) {
    Sent& sent = *sent_.emplace_back(std::make_unique<Sent>());
    for (int64_t u = first; u < first + rows; ++u) {
      sent.users.push_back(u);
      sent.ages.push_back(std::strtof(cat("0.", u).c_str(), nullptr));
      const std::string seen = cat(u, "|", u + 1);
      const auto size = static_cast<uint32_t>(seen.size());
      sent.seen.append(reinterpret_cast<const char*>(&size), sizeof size).append(seen);
    }
    auto made = std::make_unique<InferRequest>();
    made->model = "rec";
    made->inputs = {
        tensor("user", DataType::kInt64, {rows, 1}, sent.users),
        tensor("age", DataType::kFp32, {rows, 1}, sent.ages),
        {"seen__item", DataType::kBytes, {rows, 1}, std::as_bytes(std::span(sent.seen))}};
    return made;
  }

  std::unique_ptr<InferRequest> vector_request(const std::vector<float>& vectors) {
    Sent& sent = *sent_.emplace_back(std::make_unique<Sent>());
    sent.vectors = vectors;
    auto made = std::make_unique<InferRequest>();
    made->model = "rec";
    made->inputs = {
        tensor("user_vector", DataType::kFp32, {std::ssize(vectors) / 6, 6}, sent.vectors)};
    return made;
  }

  void add_top_k(InferRequest& request, std::vector<int64_t> top_k) {
    Sent& sent = *sent_.emplace_back(std::make_unique<Sent>());
    sent.top_k = std::move(top_k);
    request.inputs.push_back(
        tensor("top_k", DataType::kInt64, {std::ssize(sent.top_k), 1}, sent.top_k));
  }

  void add_ids(InferRequest& request, const char* input, int64_t rows, std::vector<int64_t> ids) {
    Sent& sent = *sent_.emplace_back(std::make_unique<Sent>());
    sent.exclude = std::move(ids);
    request.inputs.push_back(
        tensor(input, DataType::kInt64, {rows, std::ssize(sent.exclude) / rows}, sent.exclude));
  }
  void add_exclude(InferRequest& request, int64_t rows, std::vector<int64_t> ids) {
    add_ids(request, "exclude", rows, std::move(ids));
  }

  struct FoundItems {
    std::vector<int64_t> ids, counts;
    std::vector<float> scores;
    int64_t width = 0;
    ResponseParameters parameters;

    std::vector<ScoredItem> row(int64_t at) const {
      std::vector<ScoredItem> items;
      for (int64_t i = 0; i < counts.at(static_cast<size_t>(at)); ++i)
        items.push_back({scores.at(static_cast<size_t>(at * width + i)),
                         ids.at(static_cast<size_t>(at * width + i))});
      return items;
    }
  };

  template <class T>
  static std::vector<T> elements_of(const OutputTensor& tensor) {
    std::vector<T> values(tensor.data.size() / sizeof(T));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    return values;
  }

  static FoundItems found_in(const std::vector<OutputTensor>& outputs,
                             ResponseParameters parameters) {
    EXPECT_EQ(outputs.size(), 3u);
    EXPECT_EQ(outputs.at(0).name, "ids");
    EXPECT_EQ(outputs.at(1).name, "scores");
    EXPECT_EQ(outputs.at(2).name, "count");
    return {.ids = elements_of<int64_t>(outputs[0]),
            .counts = elements_of<int64_t>(outputs[2]),
            .scores = elements_of<float>(outputs[1]),
            .width = outputs[0].shape.at(1),
            .parameters = std::move(parameters)};
  }

  static FoundItems ask_for_items(InferenceService& service,
                                  std::unique_ptr<InferRequest> request) {
    const InferResult result = infer(service, std::move(request));
    if (const auto* error = std::get_if<Error>(&result)) throw *error;
    const auto& response = std::get<InferResponse>(result);
    return found_in(response.outputs, response.parameters);
  }

  TempFolder folder_;
  std::string checkpoint_;
  std::unique_ptr<Index> index_;  // of the version that was exported last
  std::vector<std::unique_ptr<Sent>> sent_;
};

}  // namespace emblem
