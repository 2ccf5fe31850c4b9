// Versions with an index of items: written, served, damaged.
#include "serve/repository/index_version_test.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "checkpoint/checkpoint.h"
#include "core/device/device_test.h"
#include "serve/engine/retrieval/index_servable.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST_F(IndexVersionTest, AnswersAreThoseOfASearchWithTheVectorsOfTheTowerBitForBit) {
  ModelServer server({.repository = repository()});
  const std::vector<float> vectors = user_vectors(checkpoint_);
  const auto expected = index_->search({}, {vectors.data(), kUsers, 6}, {.k = 7});
  for (const int64_t rows : {1, 3, 20}) {
    for (int64_t first = 0; first + rows <= kUsers; first += rows) {
      auto asked = request(first, rows);
      asked->top_k = 7;
      const FoundItems found = ask_for_items(server, std::move(asked));
      EXPECT_EQ(found.width, 7);
      EXPECT_THAT(found.parameters,
                  ElementsAre(std::pair<std::string, int64_t>("index_version", 1),
                              std::pair<std::string, int64_t>("index_change", 0)));
      for (int64_t row = 0; row < rows; ++row)
        EXPECT_EQ(found.row(row), expected[static_cast<size_t>(first + row)]);
    }
  }
}

TEST_F(IndexVersionTest, UsersMayComeAsVectors) {
  ModelServer server({.repository = repository()});
  const std::vector<float> vectors = user_vectors(checkpoint_);
  const FoundItems by_features = ask_for_items(server, request(0, kUsers));
  const FoundItems by_vectors = ask_for_items(server, vector_request(vectors));
  EXPECT_EQ(by_vectors.ids, by_features.ids);
  EXPECT_EQ(by_vectors.scores, by_features.scores);
  EXPECT_EQ(by_vectors.width, 10);
}

TEST_F(IndexVersionTest, RowsMayHaveTheirOwnNumberOfItemsAndExcludedOnes) {
  ModelServer server({.repository = repository()});
  const FoundItems all = ask_for_items(server, request(0, 3));
  auto asked = request(0, 3);
  add_top_k(*asked, {1, 4, 2});
  add_exclude(*asked, 3, {all.ids[0], kNoItemId, all.ids[10], all.ids[11], kNoItemId, kNoItemId});
  const FoundItems found = ask_for_items(server, std::move(asked));
  EXPECT_EQ(found.width, 4);
  EXPECT_THAT(found.counts, ElementsAre(1, 4, 2));
  EXPECT_EQ(found.row(0)[0].id, all.ids[1]);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(found.row(1)[i].id, all.ids[12 + i]);
  EXPECT_EQ(found.row(2)[0].id, all.ids[20]);
  EXPECT_THAT(std::vector(found.ids.begin() + 1, found.ids.begin() + 4), Each(-1));
  EXPECT_THAT(std::vector(found.scores.begin() + 10, found.scores.end()), Each(0.0f));
}

TEST_F(IndexVersionTest, ExcludedItemsMayBeRagged) {
  ModelServer server({.repository = repository()});
  const FoundItems all = ask_for_items(server, request(0, 2));
  const std::vector<int64_t> ids = {all.ids[0], all.ids[1], all.ids[10]},
                             padded = {all.ids[0], all.ids[1], all.ids[10], all.ids[11]};
  const std::vector<int32_t> offsets = {0, 2, 3}, lengths = {2, 1};
  auto by_offsets = request(0, 2), by_lengths = request(0, 2);
  by_offsets->inputs.push_back(tensor("exclude", DataType::kInt64, {3}, ids));
  by_offsets->inputs.push_back(tensor("exclude.offsets", DataType::kInt32, {3}, offsets));
  by_lengths->inputs.push_back(tensor("exclude", DataType::kInt64, {2, 2}, padded));
  by_lengths->inputs.push_back(tensor("exclude.lengths", DataType::kInt32, {2}, lengths));
  const FoundItems found = ask_for_items(server, std::move(by_offsets));
  EXPECT_EQ(found.ids[0], all.ids[2]);
  EXPECT_EQ(found.ids[10], all.ids[11]);
  EXPECT_EQ(ask_for_items(server, std::move(by_lengths)).ids, found.ids);
}

TEST_F(IndexVersionTest, AllowedItemsAloneAreFound) {
  export_version(
      {.similarity = Similarity::kCosine, .kind = IndexKind::kIvfFlat, .lists = 20, .probes = 1});
  ModelServer server({.repository = repository()});
  const std::vector<float> vectors = user_vectors(checkpoint_);
  const auto all = index_->search({}, {vectors.data(), 2, 6}, {.k = kItems, .probes = 20});
  std::vector<int64_t> allow;
  for (size_t i = 0; i < 12; ++i) allow.push_back(all[0][3 * i].id);
  for (size_t i = 0; i < 12; ++i) allow.push_back(i < 2 ? all[1][59 - i].id : kNoItemId);
  auto asked = request(0, 2);
  add_ids(*asked, "allow", 2, allow);
  FoundItems found = ask_for_items(server, std::move(asked));
  EXPECT_THAT(found.counts, ElementsAre(10, 2));
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(found.row(0)[i], all[0][3 * i]);
  EXPECT_EQ(found.row(1), std::vector({all[1][58], all[1][59]}));

  asked = request(0, 2);
  asked->filter = "in_stock";
  add_ids(*asked, "allow", 2, allow);
  add_exclude(*asked, 2, {allow[1], allow[12]});
  found = ask_for_items(server, std::move(asked));
  for (const int64_t row : {0, 1}) {
    std::vector<ScoredItem> expected;
    for (const ScoredItem& item : all[static_cast<size_t>(row)])
      if (std::count(allow.begin() + 12 * row, allow.begin() + 12 * (row + 1), item.id) > 0 &&
          item.id != allow[row == 0 ? 1 : 12] && is_in_stock(item.id - kFirstId))
        expected.push_back(item);
    expected.resize(std::min<size_t>(expected.size(), 10));
    EXPECT_EQ(found.row(row), expected) << row;
  }
}

TEST_F(IndexVersionTest, ARequestSaysHowManyListsAreSearched) {
  export_version(
      {.similarity = Similarity::kCosine, .kind = IndexKind::kIvfFlat, .lists = 20, .probes = 1});
  ModelServer server({.repository = repository()});
  const std::vector<float> vectors = user_vectors(checkpoint_);
  for (const int64_t probes : {1, 2, 7, 20}) {
    const auto expected =
        index_->search({}, {vectors.data(), kUsers, 6}, {.k = 10, .probes = probes});
    auto asked = request(0, kUsers);
    asked->probes = probes;
    const FoundItems found = ask_for_items(server, std::move(asked));
    for (int64_t row = 0; row < kUsers; ++row) EXPECT_EQ(found.row(row), expected[row]) << probes;
  }
  const auto refusal = [&](int64_t probes) {
    auto asked = request(0, 1);
    asked->probes = probes;
    return error_of(infer(server, std::move(asked)));
  };
  EXPECT_THAT(refusal(0), HasSubstr("probes is 0, expected 1 to 20"));
  EXPECT_THAT(refusal(21), HasSubstr("probes is 21, expected 1 to 20"));
  export_version();
  server.look_for_changes();
  EXPECT_THAT(refusal(1), HasSubstr("this one is flat, whose searches are exact"));
}

// With users as vectors, answers of both devices are equal.
TEST_F(IndexVersionTest, AGpuServerSearchesOnTheGpu) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no GPU";
  ModelServer server({.repository = repository(), .on_gpu = true, .allow_item_changes = true});
  const std::vector<float> vectors = user_vectors(checkpoint_);
  const auto expected = index_->search({}, {vectors.data(), kUsers, 6}, {.k = 10});
  const FoundItems found = ask_for_items(server, vector_request(vectors));
  for (int64_t row = 0; row < kUsers; ++row) EXPECT_EQ(found.row(row), expected[row]);
  const std::vector<int64_t> ids = {1};
  InferRequest put;
  put.model = "rec";
  put.inputs = {tensor("ids", DataType::kInt64, {1}, ids),
                {"vectors", DataType::kFp32, {1, 6}, std::as_bytes(std::span(vectors)).first(24)}};
  server.change_items(put, ItemChange::kPut);
  EXPECT_EQ(ask_for_items(server, vector_request(vectors)).row(0)[0].id, 1);
}

TEST_F(IndexVersionTest, FiltersNameAttributesThatItemsMustAllHave) {
  ModelServer server({.repository = repository()});
  auto asked = request(0, 2);
  asked->top_k = 1000;
  asked->filter = "in_stock,new";
  const FoundItems found = ask_for_items(server, std::move(asked));
  EXPECT_EQ(found.width, 1000);
  int64_t expected = 0;
  for (int64_t i = 0; i < kItems; ++i) expected += is_in_stock(i) && is_new(i) ? 1 : 0;
  EXPECT_THAT(found.counts, Each(expected));
  for (const ScoredItem& item : found.row(0))
    EXPECT_TRUE(is_in_stock(item.id - kFirstId) && is_new(item.id - kFirstId)) << item.id;
}

TEST_F(IndexVersionTest, ABadRequestFailsAloneInABatch) {
  ParameterServer tables;
  const auto servable = open_servable("rec", 1, version(), {}, "config.pbtxt", tables);
  const std::vector<float> vectors = user_vectors(checkpoint_);
  std::vector<float> bad(vectors.begin(), vectors.begin() + 12), zeros(6);
  bad[8] = std::nanf("");
  auto good = request(0, 2), of_vector = vector_request({vectors.begin(), vectors.begin() + 6}),
       nan = vector_request(bad), zero = vector_request(zeros), few = request(3, 1);
  few->top_k = 2;
  std::vector<EngineTask> tasks;
  for (const auto* one : {&good, &of_vector, &nan, &zero, &few})
    tasks.push_back({.request = one->get(), .rows = servable->check(**one).rows});
  EngineTimes times;
  servable->make_engine()->run(tasks, times);
  ModelServer server({.repository = repository()});
  for (const size_t i : {0, 1, 4}) {
    ASSERT_FALSE(tasks[i].error) << tasks[i].error->what();
    auto alone = std::make_unique<InferRequest>(*tasks[i].request);
    EXPECT_EQ(found_in(tasks[i].outputs, {}).ids, ask_for_items(server, std::move(alone)).ids) << i;
  }
  EXPECT_EQ(tasks[2].error->code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(tasks[2].error->what(), AllOf(HasSubstr("row 1"), HasSubstr("NaN")));
  EXPECT_THAT(tasks[3].error->what(), HasSubstr("all zeros"));
}

TEST_F(IndexVersionTest, RequestsThatDoNotFitAreRefused) {
  ModelServer server({.repository = repository()});
  const auto refusal = [&](auto change) {
    auto asked = request(0, 2);
    change(*asked);
    const InferResult result = infer(server, std::move(asked));
    const auto* error = std::get_if<Error>(&result);
    EXPECT_TRUE(error != nullptr && error->code() == ErrorCode::kInvalidArgument);
    return error_of(result);
  };
  EXPECT_THAT(refusal([](InferRequest& r) { r.top_k = 0; }), HasSubstr("not from 1 to 10000"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.top_k = 10'001; }), HasSubstr("not from 1 to 10000"));
  EXPECT_THAT(refusal([&](InferRequest& r) {
                add_top_k(r, {5, -5});
              }),
              HasSubstr("'top_k' of row 1 is not from 1 to 10000"));
  EXPECT_THAT(refusal([&](InferRequest& r) { add_top_k(r, {5}); }), HasSubstr("expected [2,1]"));
  EXPECT_THAT(refusal([&](InferRequest& r) {
                add_top_k(r, {5, 5});
                r.top_k = 5;
              }),
              HasSubstr("as an input and as a parameter"));
  EXPECT_THAT(refusal([&](InferRequest& r) {
                add_exclude(r, 1, {5, 5});
              }),
              HasSubstr("'exclude' has 1 rows"));
  EXPECT_THAT(
      refusal([&](InferRequest& r) { add_exclude(r, 2, std::vector<int64_t>(20'002, kNoItemId)); }),
      HasSubstr("at most 10000"));
  EXPECT_THAT(refusal([&](InferRequest& r) {
                add_ids(r, "allow", 2, std::vector<int64_t>(20'002, kNoItemId));
              }),
              AllOf(HasSubstr("'allow'"), HasSubstr("at most 10000")));
  EXPECT_THAT(refusal([](InferRequest& r) { r.filter = "in_stock,cheap"; }),
              AllOf(HasSubstr("unknown attribute \"cheap\""), HasSubstr("in_stock, new")));
  EXPECT_THAT(refusal([](InferRequest& r) { r.inputs.pop_back(); }), HasSubstr("seen__item"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.inputs[0].name = "item"; }),
              HasSubstr("unexpected inference input 'item'"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.outputs = {{"user_tower_emb"}}; }),
              HasSubstr("it has ids, scores, count"));
  const std::vector<float> narrow(10), wide(12);
  EXPECT_THAT(refusal([&](InferRequest& r) {
                r.inputs = {tensor("user_vector", DataType::kFp32, {2, 5}, narrow)};
              }),
              HasSubstr("expected [-1,6]"));
  EXPECT_THAT(refusal([&](InferRequest& r) {
                r.inputs.push_back(tensor("user_vector", DataType::kFp32, {2, 6}, wide));
              }),
              HasSubstr("takes the place of features"));
}

TEST_F(IndexVersionTest, AnswersAreTakenFromTheBudgetBeforeTheyAreComputed) {
  MemoryBudget memory(size_t{32} << 20);
  ModelServer server({.repository = repository(), .requests = {.memory = &memory}});
  auto large = vector_request(std::vector<float>(400 * 6, 0.5f)), small = request(0, kUsers);
  large->top_k = 10'000;  // 48 MB
  EXPECT_THAT([&] { ask_for_items(server, std::move(large)); },
              testing::Throws<Error>(
                  testing::Property(&Error::code, testing::Eq(ErrorCode::kTooLarge))));
  EXPECT_EQ(ask_for_items(server, std::move(small)).width, 10);
}

TEST_F(IndexVersionTest, AVersionHasTheTowerOfUsersAlone) {
  const Checkpoint whole = open_checkpoint(checkpoint_), served = open_checkpoint(version());
  std::vector<std::string> tables;
  for (const ManifestTable& table : served.manifest.tables) tables.push_back(table.name);
  EXPECT_GT(whole.manifest.tables.size(), tables.size());
  EXPECT_THAT(tables, Each(Not(testing::Eq("item"))));
  EXPECT_FALSE(fs::exists(version() + "/tables/item"));
  EXPECT_EQ(user_vectors(version()), user_vectors(checkpoint_));
  ModelServer server({.repository = repository()});
  std::vector<std::string> inputs;
  for (const TensorMetadata& input : server.metadata("rec", "").inputs)
    inputs.push_back(input.name);
  EXPECT_THAT(inputs, testing::UnorderedElementsAre("user", "age", "seen__item"));
  EXPECT_THAT([&] { encoded(version()); }, ThrowsMessage<Error>(HasSubstr("tower of items")));
}

TEST_F(IndexVersionTest, EveryKindAndTypeIsServed) {
  for (const IndexSettings& settings :
       {IndexSettings{.dtype = DType::kInt8},
        IndexSettings{.kind = IndexKind::kIvfFlat, .lists = 4},
        IndexSettings{.dtype = DType::kF16, .kind = IndexKind::kIvfFlat, .lists = 20}}) {
    export_version(settings);
    ModelServer server({.repository = repository()});
    const std::vector<float> vectors = user_vectors(checkpoint_);
    const auto expected = index_->search({}, {vectors.data(), kUsers, 6}, {.k = 10});
    const FoundItems found = ask_for_items(server, request(0, kUsers));
    for (int64_t row = 0; row < kUsers; ++row) EXPECT_EQ(found.row(row), expected[row]);
  }
}

// ---- what does not belong together ----

TEST_F(IndexVersionTest, APartOfAnotherVersionIsRefused) {
  const std::string first = checkpoint_;
  checkpoint_ = checkpoint_of(kMatchingPipeline, "other", 2);
  export_version();
  const std::string other = repository() + "/rec/2";
  const auto refusal = [&](const std::vector<std::string>& of_other) {
    const std::string copy = folder_.path("copy");
    fs::remove_all(copy);
    fs::copy(version(), copy, fs::copy_options::recursive);
    for (const std::string& part : of_other) {
      fs::remove_all(copy + "/" + part);
      fs::copy(other + "/" + part, copy + "/" + part, fs::copy_options::recursive);
    }
    ParameterServer tables;
    try {
      open_servable("rec", 1, copy, {}, "config.pbtxt", tables);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruption) << error.what();
      return std::string(error.what());
    }
    return std::string("it was loaded");
  };
  EXPECT_EQ(refusal({}), "it was loaded");
  EXPECT_EQ(refusal({"dense.safetensors", "tables", "index", "manifest.json", "pipeline.config"}),
            "it was loaded");
  EXPECT_THAT(refusal({"dense.safetensors"}), HasSubstr("dense.safetensors"));
  EXPECT_THAT(refusal({"dense.safetensors", "tables", "manifest.json"}), HasSubstr("index/"));
  EXPECT_THAT(refusal({"index"}), HasSubstr("index/"));
  EXPECT_THAT(refusal({"index/vector"}), HasSubstr("index/vector"));
  checkpoint_ = first;
  export_model(checkpoint_, repository() + "/plain");
  fs::copy(version() + "/index", repository() + "/plain/1/index", fs::copy_options::recursive);
  ParameterServer tables;
  EXPECT_THAT(
      [&] { open_servable("plain", 1, repository() + "/plain/1", {}, "config.pbtxt", tables); },
      ThrowsMessage<Error>(HasSubstr("the index is of another version")));
}

TEST_F(IndexVersionTest, AMissingOrChangedFileIsNamed) {
  ASSERT_FALSE(fs::is_empty(version() + "/index"));
  for (const auto& entry : fs::directory_iterator(version() + "/index")) {
    const std::string name = "index/" + entry.path().filename().string();
    for (const bool is_removed : {true, false}) {
      const std::string copy = folder_.path("copy");
      fs::remove_all(copy);
      fs::copy(version(), copy, fs::copy_options::recursive);
      if (is_removed)
        fs::remove(copy + "/" + name);
      else
        std::fstream(copy + "/" + name, std::ios::in | std::ios::out | std::ios::binary).put('\1');
      ParameterServer tables;
      EXPECT_THAT([&] { open_servable("rec", 1, copy, {}, "config.pbtxt", tables); },
                  ThrowsMessage<Error>(HasSubstr(name)));
    }
  }
}

// ---- files of items ----

TEST_F(IndexVersionTest, ItemsThatCannotBeEncodedAreRefused) {
  const auto refusal = [&](const std::string& text, const ItemColumns& columns = kColumns) {
    folder_.write("bad.csv", text);
    try {
      encoded(checkpoint_, "bad.csv", columns);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string header = "sku,item,price,in_stock,new\n";
  EXPECT_THAT(refusal(header), HasSubstr("bad.csv has no rows"));
  EXPECT_THAT(refusal(header + "7,1,0.5,1,0\n8,2,0.5,1,0\n7,3,0.5,1,0\n"),
              AllOf(HasSubstr("row 3"), HasSubstr("duplicate item 7; ids must be unique")));
  EXPECT_THAT(refusal(header + "x7,1,0.5,1,0\n"),
              AllOf(HasSubstr("row 1"), HasSubstr("column \"sku\" is \"x7\"")));
  EXPECT_THAT(refusal(header + "7,1,0.5,1,0\n8,1,0.5,yes,0\n"),
              AllOf(HasSubstr("row 2"), HasSubstr("column \"in_stock\" is \"yes\"")));
  EXPECT_THAT(refusal("sku,item,in_stock,new\n7,1,1,0\n"), HasSubstr("price"));
  EXPECT_THAT(refusal(header + "7,1,0.5,1,0\n", {.id = "id"}), HasSubstr("id"));
  EXPECT_THAT(refusal(header + "7,1,0.5,1,0\n", {.id = "sku", .attributes = {"new", "new"}}),
              HasSubstr("\"new\" is given twice"));
  const SmallServedModel ctr;
  EXPECT_THAT([&] { encoded(ctr.checkpoint()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("dssm"), HasSubstr("dlrm"))));
}

// MIND: each of a user's vectors is searched with, and an item counts with its best score.
TEST_F(IndexVersionTest, SeveralVectorsOfAUserFindTheBestOfAll) {
  std::string pipeline = kMatchingPipeline;
  const size_t begin = pipeline.find("model_config {"), end = pipeline.find("  losses {");
  pipeline.replace(begin, end - begin, R"(model_config {
  feature_groups { group_name: "users" feature_names: "user" feature_names: "age" }
  feature_groups { group_name: "seen" feature_names: "seen__item" group_type: SEQUENCE }
  feature_groups { group_name: "items" feature_names: "item" feature_names: "price" }
  mind { user_tower { input: "users" history_input: "seen" user_mlp { hidden_units: [8] }
           hist_seq_mlp { hidden_units: [8] } concat_mlp { hidden_units: [8] }
           capsule_config { max_k: 3 high_dim: 8 num_iters: 2 const_caps_num: false } }
         item_tower { input: "items" mlp { hidden_units: [8] } }
         output_dim: 6 similarity: COSINE in_batch_negative: true }
)");
  checkpoint_ = checkpoint_of(pipeline, "mind", 3);
  export_version({.similarity = Similarity::kCosine}, "mind");
  ModelServer server({.repository = repository()});
  const std::vector<float> vectors = user_vectors(checkpoint_);
  ASSERT_EQ(std::ssize(vectors), kUsers * 3 * 6);
  auto asked = request(0, kUsers);
  asked->model = "mind";
  asked->top_k = 7;
  const FoundItems found = ask_for_items(server, std::move(asked));
  bool has_missing = false;
  std::vector<std::vector<ScoredItem>> every;
  for (int64_t u = 0; u < kUsers; ++u) {
    std::map<int64_t, float> best;
    for (int64_t v = 0; v < 3; ++v) {
      const float* const vector = vectors.data() + (u * 3 + v) * 6;
      const bool is_there = std::any_of(vector, vector + 6, [](float x) { return x != 0.0f; });
      has_missing |= !is_there;
      if (!is_there) continue;
      const auto all = index_->search({}, {vector, 1, 6}, {.k = kItems});
      for (const ScoredItem& item : all[0]) {
        const auto [place, is_new_item] = best.emplace(item.id, item.score);
        if (!is_new_item) place->second = std::max(place->second, item.score);
      }
    }
    std::vector<ScoredItem> expected;
    for (const auto& [id, score] : best) expected.push_back({score, id});
    std::sort(expected.begin(), expected.end());
    every.push_back(expected);
    expected.resize(7);
    EXPECT_EQ(found.row(u), expected) << u;
  }
  std::vector<int64_t> allow;
  for (const auto& items : every)
    for (const size_t i : {9, 20, 30}) allow.push_back(items[i].id);
  asked = request(0, kUsers);
  asked->model = "mind";
  add_ids(*asked, "allow", kUsers, allow);
  const FoundItems allowed = ask_for_items(server, std::move(asked));
  for (int64_t u = 0; u < kUsers; ++u)
    EXPECT_EQ(allowed.row(u), std::vector({every[u][9], every[u][20], every[u][30]})) << u;
  EXPECT_TRUE(has_missing) << "histories of two elements have two interests at most";
}

TEST_F(IndexVersionTest, AugmentedTowersAreServedAsOthers) {
  std::string pipeline = kMatchingPipeline;
  const size_t begin = pipeline.find("  dssm {"), end = pipeline.find("  losses {");
  pipeline.replace(begin, end - begin, R"(
  feature_groups { group_name: "user_augment" feature_names: "user_vector_6" }
  feature_groups { group_name: "item_augment" feature_names: "item_vector_6" }
  dat { user_tower { input: "users" augment_input: "user_augment" mlp { hidden_units: [8] } }
        item_tower { input: "items" augment_input: "item_augment" mlp { hidden_units: [8] } }
        output_dim: 6 similarity: COSINE in_batch_negative: true }
)");
  pipeline.insert(pipeline.find("model_config {"), R"(
feature_configs { id_feature { feature_name: "user_vector_6" expression: "user:user" num_buckets: 20 embedding_dim: 6 } }
feature_configs { id_feature { feature_name: "item_vector_6" expression: "item:item" num_buckets: 60 embedding_dim: 6 } }
)");
  checkpoint_ = checkpoint_of(pipeline, "dat", 4);
  export_version({.similarity = Similarity::kCosine}, "dat");
  ModelServer server({.repository = repository()});
  const std::vector<float> vectors = user_vectors(checkpoint_);
  const auto expected = index_->search({}, {vectors.data(), kUsers, 6}, {.k = 10});
  auto asked = request(0, kUsers);
  asked->model = "dat";
  const FoundItems found = ask_for_items(server, std::move(asked));
  for (int64_t u = 0; u < kUsers; ++u) EXPECT_EQ(found.row(u), expected[u]) << u;
}

TEST_F(IndexVersionTest, DeltasAreRefused) {
  const ModelServer server({.repository = repository(), .deltas = {{"rec", folder_.path("d")}}});
  ASSERT_EQ(server.index().size(), 1u);
  EXPECT_EQ(server.index()[0].state, "UNAVAILABLE");
  EXPECT_THAT(server.index()[0].reason, HasSubstr("serve it without --deltas"));
}

TEST_F(IndexVersionTest, ATrainingNeedsBothTowers) {
  config::PipelineConfig config = load_stored_pipeline(version());
  check_pipeline(config);
  EXPECT_THAT([&] { Learner(Context{}, config, layout_of(config), 16); },
              ThrowsMessage<Error>(HasSubstr("has no item_tower")));
}

}  // namespace
}  // namespace emblem
