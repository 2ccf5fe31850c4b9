#include "serve/repository/model_server.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "core/system/seconds_since.h"
#include "core/threads/becomes_true_test.h"
#include "serve/repository/small_model_test.h"
#include "train/state/restored.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

class ModelServerTest : public testing::Test {
 protected:
  // What `emblem predict` says of the rows.
  std::vector<float> predicted(const std::string& checkpoint, const SmallRows& rows) {
    std::string text;
    for (int64_t row = 0; row < rows.rows(); ++row) {
      text += "0";
      for (int i = 0; i < 13; ++i) {
        const float value = i < 2 ? rows.numbers[row * 2 + i] : 0.0f;
        text += std::isnan(value) ? "\t" : fmt_float(value);
      }
      for (int i = 0; i < 26; ++i) text += cat("\t", std::hex, i < 3 ? rows.ids[row * 3 + i] : 0);
      text += "\n";
    }
    write_text_file_atomically(folder_.path("rows.tsv"), text);
    RestoredModel restored({}, checkpoint, "", {});
    restored.predict(folder_.path("rows.tsv"), folder_.path("out.csv"));
    std::vector<float> values;
    const std::string out = read_text_file(folder_.path("out.csv"));
    for (size_t at = out.find('\n') + 1; at < out.size(); at = out.find('\n', at) + 1)
      values.push_back(std::strtof(out.c_str() + at, nullptr));
    return values;
  }
  static std::string fmt_float(float value) {
    char text[64];
    std::snprintf(text, sizeof text, "\t%.9g", static_cast<double>(value));
    return text;
  }

  // The model is loaded, and clients may load it again.
  ModelServerOptions controlled() const {
    return {.repository = model_.repository(),
            .control = ModelServerOptions::Control::kExplicit,
            .models = {"ctr"}};
  }

  SmallServedModel model_;
  const TempFolder folder_;
};

TEST_F(ModelServerTest, AnswersAreThoseOfPredictBitForBitInBatchesOfAnySize) {
  ModelServer server({.repository = model_.repository()});
  const SmallRows rows = SmallRows::random(1000, 1);
  const std::vector<float> expected = predicted(model_.checkpoint(), rows);
  ASSERT_EQ(expected.size(), 1000u);
  EXPECT_EQ(probabilities(server, rows.request(0, 1000)), expected);
  for (int64_t begin = 0, size = 1; begin < 1000; begin += size, size = size * 2 + 1) {
    const int64_t count = std::min<int64_t>(size, 1000 - begin);
    EXPECT_EQ(probabilities(server, rows.request(begin, count)),
              std::vector<float>(expected.begin() + begin, expected.begin() + begin + count));
  }
}

TEST_F(ModelServerTest, DescribesTheModel) {
  ModelServer server({.repository = model_.repository()});
  EXPECT_TRUE(server.is_ready());
  const ModelMetadata metadata = server.metadata("ctr", "");
  EXPECT_THAT(metadata.versions, ElementsAre("1"));
  ASSERT_EQ(metadata.inputs.size(), 2u);
  EXPECT_EQ(metadata.inputs[0].name, "categorical_features");
  EXPECT_THAT(metadata.inputs[0].shape, ElementsAre(-1, 3));
  EXPECT_EQ(metadata.inputs[1].type, DataType::kFp32);
  EXPECT_EQ(metadata.outputs.at(0).name, "probability");
  const inference::ModelConfig config = server.config("ctr", "1");
  EXPECT_EQ(config.parameters().at("categorical_features").string_value(), "C1,C2,C3");
  EXPECT_THAT([&] { server.metadata("ctx", ""); },
              ThrowsMessage<Error>(HasSubstr("'ctx' is not found")));
  EXPECT_THAT([&] { server.metadata("ctr", "7"); }, ThrowsMessage<Error>(HasSubstr("version 7")));
}

TEST_F(ModelServerTest, RefusesRequestsThatDoNotFit) {
  ModelServer server({.repository = model_.repository()});
  const SmallRows rows = SmallRows::random(4, 2);
  const auto refusal = [&](auto change) {
    auto request = rows.request(0, 4);
    change(*request);
    return error_of(infer(server, std::move(request)));
  };
  EXPECT_THAT(refusal([](InferRequest& r) { r.model = "ctx"; }), HasSubstr("unknown model"));
  EXPECT_THAT(
      refusal([](InferRequest& r) { r.inputs.pop_back(); }),
      AllOf(HasSubstr("expected 2 inputs but got 1"), HasSubstr("missing: categorical_features")));
  EXPECT_THAT(refusal([](InferRequest& r) { r.inputs[0].name = "x"; }),
              HasSubstr("unexpected inference input 'x'"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.inputs[0].type = DataType::kInt64; }),
              HasSubstr("expected FP32"));
  EXPECT_THAT(refusal([](InferRequest& r) {
                r.inputs[0].shape = {4, 3};
              }),
              HasSubstr("expected [-1,2]"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.inputs[0].shape = {-4, 2}; }), HasSubstr("negative"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.inputs[0].shape = {5, 2}; }), HasSubstr("needs 40"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.inputs[1] = r.inputs[0]; }),
              HasSubstr("given twice"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.outputs = {{"y"}}; }),
              HasSubstr("unexpected inference output"));
  // Each would be a copy of the answer.
  EXPECT_THAT(refusal([](InferRequest& r) { r.outputs.assign(1000, {"probability"}); }),
              HasSubstr("expected at most 3 outputs but 1000 are requested"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.top_k = 3; }),
              HasSubstr("model 'ctr' finds no items: remove the parameters of a search"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.filter = "new"; }), HasSubstr("finds no items"));
  SmallRows outside = rows;
  outside.ids[3] = 50;
  EXPECT_THAT(error_of(infer(server, outside.request(0, 4))),
              AllOf(HasSubstr("row 1"), HasSubstr("id 50 is outside a static table")));
  EXPECT_EQ(server.statistics("ctr", "").at(0).fail.count, 12u);
}

TEST_F(ModelServerTest, ARequestMayNameLogitsBesideTheOthers) {
  ModelServer server({.repository = model_.repository()});
  const SmallRows rows = SmallRows::random(4, 2);
  auto request = rows.request(0, 4);
  request->outputs = {{"probability"}, {"logits"}};
  const InferResult result = infer(server, std::move(request));
  ASSERT_EQ(error_of(result), "");
  const auto& outputs = std::get<InferResponse>(result).outputs;
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].name, "probability");
  EXPECT_EQ(outputs[1].name, "logits");
}

TEST_F(ModelServerTest, MessagesDoNotShowValuesInSharedMemory) {
  ModelServer server({.repository = model_.repository()});
  SmallRows rows = SmallRows::random(4, 2);
  rows.ids[3] = 123456789;
  auto request = rows.request(0, 4);
  request->inputs[1].in_shared_memory = true;
  EXPECT_THAT(error_of(infer(server, std::move(request))),
              AllOf(HasSubstr("row 1: a value is not valid"), Not(HasSubstr("123456789"))));
}

TEST_F(ModelServerTest, RequestsAreLimitedInRowsAndInBytesOfTheirAnswers) {
  write_text_file_atomically(model_.model_folder() + "/config.pbtxt", "max_batch_size: 4");
  MemoryBudget budget(1 << 20);
  ModelServer server(
      {.repository = model_.repository(), .requests = {.max_answer_bytes = 12, .memory = &budget}});
  const SmallRows rows = SmallRows::random(5, 2);
  auto request = rows.request(0, 5);
  request->id = "42";
  EXPECT_EQ(error_of(infer(server, std::move(request))),
            "[request id: 42] inference request batch-size must be <= 4 for 'ctr'");
  EXPECT_THAT(error_of(infer(server, rows.request(0, 5))), HasSubstr("[request id: <id_unknown>]"));
  EXPECT_THAT(
      error_of(infer(server, rows.request(0, 4))),
      HasSubstr("the answer would have 16 bytes, but one of model 'ctr' may have up to 12"));
  {
    const InferResult answer = infer(server, rows.request(0, 3));
    EXPECT_EQ(error_of(answer), "");
    EXPECT_EQ(budget.used(), 12u);
    MemoryBudget::Lease others(budget);
    others.grow(budget.limit() - 20);
    const InferResult refused = infer(server, rows.request(0, 3));
    EXPECT_EQ(std::get<Error>(refused).code(), ErrorCode::kUnavailable);
  }
  EXPECT_EQ(budget.used(), 0u);
}

TEST_F(ModelServerTest, ABadRequestInABatchFailsAlone) {
  // Requests wait for each other so that they surely run as one batch.
  write_text_file_atomically(model_.model_folder() + "/config.pbtxt",
                             "max_batch_size: 8 dynamic_batching { preferred_batch_size: 3 "
                             "max_queue_delay_microseconds: 3600000000 }");
  ModelServer server({.repository = model_.repository()});
  SmallRows rows = SmallRows::random(3, 3);
  rows.ids[3] = 1000;
  std::promise<InferResult> promises[3];
  for (int i = 0; i < 3; ++i) {
    server.infer(rows.request(i, 1),
                 [&, i](InferResult r) { promises[i].set_value(std::move(r)); });
  }
  EXPECT_EQ(error_of(promises[0].get_future().get()), "");
  EXPECT_THAT(error_of(promises[1].get_future().get()), HasSubstr("row 0"));
  EXPECT_EQ(error_of(promises[2].get_future().get()), "");
}

TEST_F(ModelServerTest, MissingIdsAndNumbersAreTreatedAsInTraining) {
  ModelServer server({.repository = model_.repository()});
  SmallRows rows = SmallRows::random(2, 4);
  rows.numbers[1] = std::numeric_limits<float>::quiet_NaN();
  rows.numbers[3] = 3.0f;  // the default value of I2
  rows.numbers[2] = rows.numbers[0];
  for (int i = 0; i < 3; ++i) rows.ids[3 + i] = rows.ids[i];
  const std::vector<float> same = probabilities(server, rows.request(0, 2));
  EXPECT_EQ(same.at(0), same.at(1));
  rows.ids[5] = INT64_MIN;  // no key at all
  const std::vector<float> other = probabilities(server, rows.request(0, 2));
  EXPECT_EQ(other.at(0), same.at(0));
  EXPECT_NE(other.at(1), same.at(1));
}

// I1 has a normalizer with a logarithm, I2 none.
TEST_F(ModelServerTest, InfiniteNumbersAreMissingValues) {
  ModelServer server({.repository = model_.repository()});
  for (const size_t column : {size_t{0}, size_t{1}}) {
    SmallRows rows = SmallRows::random(1, 4);
    rows.numbers = {2.0f, 0.5f};
    const std::vector<float> other = probabilities(server, rows.request(0, 1));
    rows.numbers[column] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> missing = probabilities(server, rows.request(0, 1));
    EXPECT_NE(missing, other);
    for (const float infinite : {INFINITY, -INFINITY}) {
      rows.numbers[column] = infinite;
      EXPECT_EQ(probabilities(server, rows.request(0, 1)), missing) << column << " " << infinite;
    }
  }
}

TEST_F(ModelServerTest, ASecondVersionLandsBesideTheFirstAndTakesOver) {
  ModelServer server(controlled());
  const SmallRows rows = SmallRows::random(10, 5);
  const std::vector<float> first = probabilities(server, rows.request(0, 10));
  model_.train(30);
  const ExportedModel second = model_.export_version();
  EXPECT_EQ(second.version, 2);
  EXPECT_FALSE(second.wrote_config);
  EXPECT_EQ(probabilities(server, rows.request(0, 10)), first);  // not before it is loaded
  server.load("ctr", {});
  EXPECT_EQ(probabilities(server, rows.request(0, 10)), predicted(model_.checkpoint(), rows));
  EXPECT_THAT(server.metadata("ctr", "").versions, ElementsAre("2"));
  write_text_file_atomically(model_.model_folder() + "/config.pbtxt",
                             "max_batch_size: 64 version_policy { all {} }");
  server.load("ctr", {});
  EXPECT_THAT(server.metadata("ctr", "").versions, ElementsAre("1", "2"));
  auto old = rows.request(0, 10);
  old->version = "1";
  EXPECT_EQ(probabilities(server, std::move(old)), first);
}

TEST_F(ModelServerTest, NoRequestFailsWhileModelsAreReplaced) {
  ModelServer server(controlled());
  const SmallRows rows = SmallRows::random(64, 6);
  const std::vector<float> first = probabilities(server, rows.request(0, 64));
  model_.train(30);
  model_.export_version();
  std::vector<float> second;
  {
    ModelServer other({.repository = model_.repository()});
    second = probabilities(other, rows.request(0, 64));
  }
  std::atomic<bool> stop = false;
  std::atomic<int> answers = 0, wrong = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 3; ++c) {
    clients.emplace_back([&, c] {
      for (int64_t i = c; !stop; ++i) {
        const int64_t row = i % 64;
        const InferResult result = infer(server, rows.request(row, 1));
        const auto* response = std::get_if<InferResponse>(&result);
        const bool right =
            response != nullptr && floats_of(response->outputs.at(0)).at(0) ==
                                       (response->version == "1" ? first : second)[row];
        ++(right ? answers : wrong);
      }
    });
  }
  const std::string config = model_.model_folder() + "/config.pbtxt";
  const std::string before = read_text_file(config);
  for (int i = 0; i < 10; ++i) {
    server.load(
        "ctr",
        {{"config",
          i % 2 == 0 ? R"({"max_batch_size": 8, "version_policy": {"specific": {"versions": [1]}}})"
                     : R"({"max_batch_size": 16})"}});
    const int already = answers;
    EXPECT_TRUE(becomes_true([&] { return answers >= already + 10; }));
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ModelServerTest, AModelThatCannotBeLoadedIsListedAndTheOldOneRunsOn) {
  ModelServer server(controlled());
  const std::string config = model_.model_folder() + "/config.pbtxt";
  write_text_file_atomically(config, "max_batch_sise: 8");
  EXPECT_THAT(
      [&] { server.load("ctr", {}); },
      ThrowsMessage<Error>(AllOf(HasSubstr("config.pbtxt:1:"), HasSubstr("max_batch_size"))));
  const SmallRows rows = SmallRows::random(1, 7);
  EXPECT_EQ(probabilities(server, rows.request(0, 1)).size(), 1u);
  EXPECT_EQ(server.index().at(0).state, "READY");
  EXPECT_THAT(server.index().at(0).reason, HasSubstr("max_batch_sise"));

  ModelServer fresh({.repository = model_.repository()});
  EXPECT_FALSE(fresh.is_ready());
  EXPECT_EQ(fresh.index().at(0).state, "UNAVAILABLE");
  EXPECT_THAT(fresh.index().at(0).reason, HasSubstr("max_batch_sise"));
  EXPECT_THAT(error_of(infer(fresh, rows.request(0, 1))), HasSubstr("is not ready"));
}

TEST_F(ModelServerTest, ADamagedVersionIsRefused) {
  std::filesystem::resize_file(model_.model_folder() + "/1/tables/C3_emb/emb_vector", 8);
  ModelServer server({.repository = model_.repository()});
  EXPECT_THAT(server.index().at(0).reason, HasSubstr("truncated"));
}

TEST_F(ModelServerTest, UnloadedModelsAnswerNoMore) {
  ModelServer server(
      {.repository = model_.repository(), .control = ModelServerOptions::Control::kExplicit});
  const SmallRows rows = SmallRows::random(1, 8);
  EXPECT_THAT(error_of(infer(server, rows.request(0, 1))), HasSubstr("unknown model"));
  server.load("ctr", {});
  EXPECT_EQ(probabilities(server, rows.request(0, 1)).size(), 1u);
  server.unload("ctr");
  EXPECT_THAT(error_of(infer(server, rows.request(0, 1))), HasSubstr("unloaded"));
  EXPECT_THROW(server.load("../ctr", {}), Error);
  EXPECT_THROW(server.load("nothing", {}), Error);
}

TEST_F(ModelServerTest, PollingFindsNewVersions) {
  ModelServer server({.repository = model_.repository(),
                      .control = ModelServerOptions::Control::kPoll,
                      .poll_seconds = 0.02});
  model_.train(5);
  model_.export_version();
  EXPECT_TRUE(becomes_true([&] { return server.metadata("ctr", "").versions.back() == "2"; }));
}

TEST_F(ModelServerTest, WithoutItsOnlyModelItIsNotReady) {
  ModelServer server({.repository = model_.repository(),
                      .control = ModelServerOptions::Control::kPoll,
                      .poll_seconds = 0.02});
  EXPECT_TRUE(server.is_ready());
  const std::string elsewhere = model_.repository() + "_elsewhere";
  std::filesystem::rename(model_.model_folder(), elsewhere);
  EXPECT_TRUE(becomes_true([&] { return !server.is_ready(); }));
  EXPECT_THAT(error_of(infer(server, SmallRows::random(1, 1).request(0, 1))),
              HasSubstr("unloaded"));
  std::filesystem::rename(elsewhere, model_.model_folder());
  EXPECT_TRUE(becomes_true([&] { return server.is_ready(); }));
}

TEST_F(ModelServerTest, ConfigurationsThatAskForWhatIsNotThereAreRefused) {
  ModelServer server(
      {.repository = model_.repository(), .control = ModelServerOptions::Control::kExplicit});
  const auto refusal = [&](const std::string& config) {
    write_text_file_atomically(model_.model_folder() + "/config.pbtxt", config);
    try {
      server.load("ctr", {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("backend: \"onnxruntime\""), HasSubstr("backend 'onnxruntime'"));
  EXPECT_THAT(refusal("sequence_batching {}"), HasSubstr("sequence_batching is not supported"));
  EXPECT_THAT(refusal("name: \"other\""), HasSubstr("name is 'other'"));
  EXPECT_THAT(refusal("max_batch_size: 8 input { name: \"x\" }"), HasSubstr("no input 'x'"));
  EXPECT_THAT(
      refusal(
          "max_batch_size: 8 input { name: \"numerical_features\" data_type: TYPE_FP32 dims: 3 }"),
      HasSubstr("the model's is [-1,2]"));
  EXPECT_THAT(refusal("max_batch_size: 8 dynamic_batching { preferred_batch_size: 9 }"),
              HasSubstr("preferred_batch_size 9"));
  EXPECT_THAT(refusal("version_policy { specific { versions: 4 } }"), HasSubstr("version 4"));
  std::string groups;
  for (int i = 0; i < 5; ++i) groups += "instance_group { count: 256 kind: KIND_CPU } ";
  EXPECT_THAT(refusal(groups), HasSubstr("expected at most 1024"));
  EXPECT_THAT(refusal("parameters { key: \"threads\" value { string_value: \"4 junk\" } }"),
              HasSubstr("threads is '4 junk'"));
  EXPECT_THAT(refusal("instance_group { count: 100 kind: KIND_CPU } parameters { key: \"threads\" "
                      "value { string_value: \"100\" } }"),
              HasSubstr("have 10000 threads; expected at most 4096"));
  EXPECT_EQ(refusal(""), "");
}

TEST_F(ModelServerTest, SettingsWithoutEffectAreOneWarningUntilTheConfigurationChanges) {
  const std::string file = model_.model_folder() + "/config.pbtxt";
  write_text_file_atomically(file, R"(max_batch_size: 8 optimization { graph { level: 1 } }
      parameters { key: "slo_p99_ms" value { string_value: "5" } })");
  testing::internal::CaptureStderr();
  ModelServer server(controlled());
  model_.export_version();
  server.load("ctr", {});
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string warning = cat("warning: ", file, ": settings without effect: optimization, ",
                                  "parameters[\"slo_p99_ms\"] (did you mean \"slo_p99_us\"?)\n");
  ASSERT_THAT(log, HasSubstr(warning));
  EXPECT_THAT(log.substr(log.find(warning) + warning.size()), Not(HasSubstr("without effect")));
  write_text_file_atomically(file, "max_batch_size: 8 model_warmup {}");
  testing::internal::CaptureStderr();
  server.load("ctr", {});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("settings without effect: model_warmup\n"));
}

// The thread that looks for new versions must outlive whatever a version throws.
TEST_F(ModelServerTest, AVersionWhoseLoadingThrowsAnythingIsTriedAgain) {
  std::atomic<int> attempts = 0;
  std::atomic<bool> broken = false;
  ModelServerOptions options{.repository = model_.repository(),
                             .control = ModelServerOptions::Control::kPoll,
                             .poll_seconds = 0.01};
  options.open = [&](auto&&... arguments) {
    const int attempt = ++attempts;
    if (broken && attempt % 3 == 0) throw std::runtime_error("the disk is on fire");
    if (broken && attempt % 3 == 1) throw std::bad_alloc();
    if (broken) throw 7;
    return open_servable(arguments...);
  };
  ModelServer server(options);
  broken = true;
  model_.train(1);
  model_.export_version();
  EXPECT_TRUE(becomes_true([&] { return attempts >= 5; }));
  EXPECT_EQ(server.index().at(0).version, "1");  // runs on meanwhile
  EXPECT_EQ(probabilities(server, SmallRows::random(1, 1).request(0, 1)).size(), 1u);
  broken = false;
  EXPECT_TRUE(becomes_true([&] { return server.index().at(0).version == "2"; }));
}

// For docs/performance.md: what taking memory from the budget costs an engine.
TEST_F(ModelServerTest, DISABLED_TimeOfTakingMemory) {
  ParameterServer tables;
  const auto servable =
      open_servable("ctr", 1, model_.model_folder() + "/1", {}, "config.pbtxt", tables);
  MemoryBudget budget(size_t{1} << 30);
  const auto plain = servable->make_engine(), charged = servable->make_engine();
  charged->take_memory_from(budget);
  const SmallRows rows = SmallRows::random(1024, 1);
  for (const int64_t count : {1, 64, 1024}) {
    const auto request = rows.request(0, count);
    const auto microseconds = [&](Engine& engine) {
      const auto start = std::chrono::steady_clock::now();
      int runs = 0;
      for (; seconds_since(start) < 0.05; ++runs) {
        EngineTask task{.request = request.get(), .rows = count};
        EngineTimes times;
        engine.run({&task, 1}, times);
        EXPECT_FALSE(task.error.has_value());
      }
      return seconds_since(start) * 1e6 / runs;
    };
    double fastest[2] = {1e9, 1e9};
    for (int round = 0; round < 20; ++round) {  // in turns, for other load on the machine
      fastest[0] = std::min(fastest[0], microseconds(*plain));
      fastest[1] = std::min(fastest[1], microseconds(*charged));
    }
    std::printf("%4ld rows: %.2f us, with a budget %.2f us\n", static_cast<long>(count), fastest[0],
                fastest[1]);
  }
}

}  // namespace
}  // namespace emblem
