// Tables of a server: HPS's models, updates from training, what metrics say of them.
#include <gmock/gmock.h>

#include <filesystem>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "core/device/device_test.h"
#include "core/threads/becomes_true_test.h"
#include "embedding/files/delta_files.h"
#include "serve/repository/model_server.h"
#include "serve/repository/small_model_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string table_of(const SmallServedModel& model) {
  return model.model_folder() + "/1/tables/C3_emb";
}

std::vector<int64_t> keys_of(const std::string& folder) {
  const std::string bytes = read_text_file(folder + "/key");
  std::vector<int64_t> keys(bytes.size() / 8);
  std::memcpy(keys.data(), bytes.data(), bytes.size());
  return keys;
}

std::vector<float> rows_of(const std::string& folder) {
  const std::string bytes = read_text_file(folder + "/emb_vector");
  std::vector<float> rows(bytes.size() / 4);
  std::memcpy(rows.data(), bytes.data(), bytes.size());
  return rows;
}

class HpsBackendTest : public testing::Test {
 protected:
  HpsBackendTest() {
    write_config("max_batch_size: 0");
    write_text_file_atomically(
        folder_.path("ps.json"),
        cat(R"({"supportlonglong": true, "models": [{"model": "tables", "sparse_files": [")",
            table_of(model_), R"(", ")", table_of(model_),
            R"("], "embedding_table_names": ["fi\"rst", "second"], "deployed_device_list": [0],
                "maxnum_catfeature_query_per_table_per_sample": [10, 10],
                "embedding_vecsize_per_table": [4, 4], "default_value_for_each_table": [0.5, -1]}]})"));
    serve({});
  }

  void write_config(const std::string& more) {
    const std::string model = folder_.path("repository") + "/tables";
    std::filesystem::create_directories(model + "/1");
    write_text_file_atomically(model + "/config.pbtxt", cat(R"(name: "tables" backend: "hps"
           input { name: "KEYS" data_type: TYPE_INT64 dims: -1 }
           input { name: "NUMKEYS" data_type: TYPE_INT32 dims: -1 }
           output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 } )",
                                                            more));
  }

  void serve(const InferOptions& requests) {
    server_.reset();
    server_ = std::make_unique<ModelServer>(ModelServerOptions{
        .repository = folder_.path("repository"),
        .ps_config = folder_.path("ps.json"),
        .requests = requests,
    });
  }

  InferResult ask(const std::vector<int64_t>& keys, const std::vector<int32_t>& counts) {
    auto request = std::make_unique<InferRequest>();
    request->model = "tables";
    request->inputs = {{"KEYS",
                        DataType::kInt64,
                        {static_cast<int64_t>(keys.size())},
                        std::as_bytes(std::span(keys))},
                       {"NUMKEYS",
                        DataType::kInt32,
                        {static_cast<int64_t>(counts.size())},
                        std::as_bytes(std::span(counts))}};
    return infer(*server_, std::move(request));
  }

  SmallServedModel model_;
  const TempFolder folder_;
  std::unique_ptr<ModelServer> server_;
};

TEST_F(HpsBackendTest, GivesTheRowsOfEachTableInTheOrderOfTheKeys) {
  const auto keys = keys_of(table_of(model_));
  const auto rows = rows_of(table_of(model_));
  const InferResult result = ask({keys[3], keys[0], -7, -7, keys[3]}, {3, 2});
  ASSERT_EQ(error_of(result), "");
  const OutputTensor& output = std::get<InferResponse>(result).outputs.at(0);
  EXPECT_THAT(output.shape, ElementsAre(20));
  const std::vector<float> found = floats_of(output);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(found[i], rows[3 * 4 + i]);
    EXPECT_EQ(found[4 + i], rows[i]);
    EXPECT_EQ(found[8 + i], 0.5f);    // the first table's default
    EXPECT_EQ(found[12 + i], -1.0f);  // the second's
    EXPECT_EQ(found[16 + i], rows[3 * 4 + i]);
  }
  EXPECT_THAT(
      server_->extra_metrics(),
      HasSubstr("emblem_missing_keys_total{model=\"tables\",version=\"1\",table=\"fi\\\"rst\"} 1"));
}

// On the CPU where there is no GPU that can be used, with the same answers.
TEST_F(HpsBackendTest, RunsOnAGpuWhereThereIsOne) {
  write_config("max_batch_size: 64 instance_group { kind: KIND_GPU gpus: 0 count: 2 }");
  serve({});
  const auto keys = keys_of(table_of(model_));
  const auto rows = rows_of(table_of(model_));
  for (int round = 0; round < 3; ++round) {
    const InferResult result = ask({keys[3], keys[0], -7, -7, keys[3]}, {3, 2});
    ASSERT_EQ(error_of(result), "");
    const auto& response = std::get<InferResponse>(result);
    EXPECT_THAT(response.outputs.at(0).shape, ElementsAre(20));  // though the model batches
    EXPECT_THAT(response.parameters, ElementsAre(Pair("NumSample", 0), Pair("DeviceID", 0)));
    const std::vector<float> found = floats_of(response.outputs.at(0));
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(found[i], rows[3 * 4 + i]);
      EXPECT_EQ(found[8 + i], 0.5f);
      EXPECT_EQ(found[16 + i], rows[3 * 4 + i]);
    }
  }
  if (device_is_usable(Device::kCuda)) {
    EXPECT_THAT(server_->extra_metrics(), HasSubstr("table=\"second\",tier=\"L1\"} "));
  }
  EXPECT_THAT(ModelServer({.repository = folder_.path("repository")}).index().at(0).reason,
              HasSubstr("backend hps needs an entry for model 'tables' in models of ps.json"));
}

TEST_F(HpsBackendTest, OtherTensorsAreRefused) {
  write_config(R"(input { name: "DES" data_type: TYPE_FP32 dims: -1 })");
  serve({});
  EXPECT_THAT(server_->index().at(0).reason,
              HasSubstr("input 'DES'; backend hps has the inputs KEYS and NUMKEYS"));
}

TEST_F(HpsBackendTest, RefusesCountsThatDoNotFit) {
  EXPECT_THAT(error_of(ask({1, 2}, {1})), HasSubstr("has 2 tables"));
  EXPECT_THAT(error_of(ask({1, 2}, {1, 2})), HasSubstr("do not add up to the 2 KEYS"));
  EXPECT_THAT(error_of(ask({1, 2}, {3, -1})), HasSubstr("negative"));
}

TEST_F(HpsBackendTest, RefusesMoreKeysThanPsJsonAllows) {
  const int32_t most = 64 * 10;  // the default of max_batch_size x maxnum_catfeature_...
  EXPECT_EQ(error_of(ask(std::vector<int64_t>(2 * most), {most, most})), "");
  EXPECT_THAT(error_of(ask(std::vector<int64_t>(2 * most), {most - 1, most + 1})),
              HasSubstr("more keys of table second than ps.json allows: max_batch_size 64 x "
                        "maxnum_catfeature_query_per_table_per_sample 10"));
}

TEST_F(HpsBackendTest, RefusesAnswersThatAreTooLarge) {
  const size_t row_bytes = 4 * sizeof(float);
  serve({.max_answer_bytes = 10 * row_bytes});
  EXPECT_EQ(error_of(ask(std::vector<int64_t>(10), {4, 6})), "");
  EXPECT_THAT(error_of(ask(std::vector<int64_t>(11), {5, 6})),
              HasSubstr("the answer would have 176 bytes, but one of model 'tables' may have up to "
                        "160; send smaller requests or raise --max-response-size"));
}

TEST(DeltasTest, RowsThatTrainingChangesReachTheServer) {
  SmallServedModel model;
  const TempFolder folder;
  ModelServer server(
      {.repository = model.repository(), .deltas = {{"ctr", folder.path("deltas")}}});
  const SmallRows rows = SmallRows::random(1, 9);
  const std::vector<float> before = probabilities(server, rows.request(0, 1));
  {
    DeltaWriter writer(folder.path("deltas"), 1);
    const std::vector<float> row = {5.0f, -5.0f, 5.0f, -5.0f};
    writer.add("C3_emb", 4, std::vector<int64_t>{rows.ids[2]}, row);
    writer.finish();
  }
  EXPECT_TRUE(becomes_true([&] { return probabilities(server, rows.request(0, 1)) != before; }));
  // The rows are there a moment before they are counted.
  EXPECT_TRUE(becomes_true([&] {
    return server.extra_metrics().find(
               "emblem_updates_applied_total{model=\"ctr\",version=\"1\"} 1") != std::string::npos;
  }));
  EXPECT_THAT(server.extra_metrics(), HasSubstr("emblem_update_age_seconds"));
}

}  // namespace
}  // namespace emblem
