// Items that are found and ranked in one request.
#include "serve/repository/ranked_search.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <numeric>
#include <thread>

#include "serve/engine/retrieval/stored_columns.h"
#include "serve/repository/index_version_test.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

// The model "rec" has columns of its items; the model "rank" reads them and those of users.
class RankedSearchTest : public IndexVersionTest {
 protected:
  static constexpr const char* kRankPipeline = R"(
train_input_path: "train" model_dir: "rank_model"
train_config { sparse_optimizer { adagrad_optimizer { lr: 0.02 } }
               dense_optimizer { adam_optimizer { lr: 0.002 } } num_epochs: 1 }
data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG batch_size: 16
              label_fields: "clk" }
feature_configs { id_feature { feature_name: "user" num_buckets: 20 embedding_dim: 4 } }
feature_configs { raw_feature { feature_name: "height" } }
feature_configs { id_feature { feature_name: "item" num_buckets: 60 embedding_dim: 4 } }
feature_configs { raw_feature { feature_name: "price" } }
feature_configs { sequence_feature { sequence_name: "seen" sequence_length: 5 sequence_delim: "|"
  features { id_feature { feature_name: "item" num_buckets: 60 embedding_dim: 4 } } } }
model_config {
  feature_groups { group_name: "all" feature_names: "user" feature_names: "height"
    feature_names: "item" feature_names: "price"
    sequence_groups { group_name: "seen" feature_names: "seen__item" }
    sequence_encoders { pooling_encoder {} } }
  multi_tower { towers { input: "all" mlp { hidden_units: 8 } } final { hidden_units: 4 } }
  losses { binary_cross_entropy {} } metrics { auc {} }
}
)";

  RankedSearchTest() {
    std::filesystem::remove_all(repository());
    export_with_columns();
    export_ranking(7);
  }

  void export_with_columns(const std::vector<std::string>& stored = {"price", "item"}) {
    ItemColumns columns = kColumns;
    columns.stored = stored;
    const EncodedItems items = encoded(checkpoint_, "items.csv", columns);
    index_ = Index::build(
        {}, {.dim = items.dim, .similarity = Similarity::kCosine, .attributes = columns.attributes},
        {items.ids, {items.vectors.data(), kItems, items.dim}, items.attributes});
    const StoredColumns texts(stored, items.ids, items.stored);
    export_model(checkpoint_, repository() + "/rec", 0, nullptr, nullptr, store_lock_options(),
                 index_.get(), &texts);
  }

  // A version of "rank" that takes 7 rows at a time.
  void export_ranking(int64_t seed, const std::string& name = "rank",
                      const std::string& pipeline = kRankPipeline) {
    const std::string folder = repository() + "/" + name;
    const ExportedModel made = export_model(checkpoint_of(pipeline, cat(name, seed), seed), folder);
    if (made.version > 1) return;
    const std::string file = folder + "/config.pbtxt";
    std::string text = read_text_file(file);
    const size_t at = text.find("max_batch_size:"), end = text.find('\n', at);
    if (at == std::string::npos)
      text += "max_batch_size: 7\n";
    else
      text.replace(at, end - at, "max_batch_size: 7");
    write_text_file_atomically(file, text);
  }

  struct RankedRow {
    std::vector<int64_t> ids;
    std::vector<float> scores, rank_scores;
    bool operator==(const RankedRow&) const = default;
  };
  struct Ranked {
    std::vector<RankedRow> rows;
    int64_t width = 0;
    std::map<std::string, int64_t> parameters;
  };

  static Ranked ranked_in(const InferResponse& response) {
    EXPECT_EQ(response.outputs.size(), 4u);
    EXPECT_EQ(response.outputs.at(3).name, "rank_scores");
    const auto ids = elements_of<int64_t>(response.outputs.at(0));
    const auto scores = elements_of<float>(response.outputs.at(1));
    const auto counts = elements_of<int64_t>(response.outputs.at(2));
    const auto rank_scores = elements_of<float>(response.outputs.at(3));
    Ranked ranked{.rows = {}, .width = response.outputs[0].shape.at(1), .parameters = {}};
    for (const auto& [name, value] : response.parameters) ranked.parameters[name] = value;
    for (size_t row = 0; row < counts.size(); ++row) {
      RankedRow& made = ranked.rows.emplace_back();
      for (int64_t i = 0; i < ranked.width; ++i) {
        const size_t at = row * static_cast<size_t>(ranked.width) + static_cast<size_t>(i);
        if (i < counts[row]) {
          made.ids.push_back(ids[at]);
          made.scores.push_back(scores[at]);
          made.rank_scores.push_back(rank_scores[at]);
        } else {
          EXPECT_EQ(ids[at], -1);
          EXPECT_EQ(scores[at], 0.0f);
          EXPECT_EQ(rank_scores[at], 0.0f);
        }
      }
    }
    return ranked;
  }

  static Ranked ask_for_ranked(InferenceService& service, std::unique_ptr<InferRequest> request) {
    const InferResult result = infer(service, std::move(request));
    if (const auto* error = std::get_if<Error>(&result)) throw *error;
    return ranked_in(std::get<InferResponse>(result));
  }

  static float height_of(int64_t user) { return std::strtof(cat("1.", user % 7).c_str(), nullptr); }

  // Users with what both models read.
  std::unique_ptr<InferRequest> ranked_request(int64_t first, int64_t rows) {
    auto asked = request(first, rows);
    add_heights(*asked, first, rows);
    asked->then_rank = "rank";
    return asked;
  }

  void add_heights(InferRequest& asked, int64_t first, int64_t rows) {
    Sent& sent = *sent_.emplace_back(std::make_unique<Sent>());
    for (int64_t u = first; u < first + rows; ++u) sent.ages.push_back(height_of(u));
    asked.inputs.push_back(tensor("height", DataType::kFp32, {rows, 1}, sent.ages));
  }

  static std::string text_element(const std::string& text) {
    const auto size = static_cast<uint32_t>(text.size());
    return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
  }

  // What a client asks the ranking model by itself: one request for each item, of items.csv unless
  // `texts` has its price and number.
  std::vector<float> rank_scores_of(
      InferenceService& service, int64_t user, const std::vector<ScoredItem>& items,
      const std::map<int64_t, std::pair<std::string, std::string>>& texts = {}) {
    std::vector<float> scores;
    for (const ScoredItem& item : items) {
      auto asked = request(user, 1);
      std::erase_if(asked->inputs, [](const InputTensor& input) { return input.name == "age"; });
      add_heights(*asked, user, 1);
      asked->model = "rank";
      const auto changed = texts.find(item.id);
      const int64_t number = item.id - kFirstId;
      const auto& [price, name] = changed != texts.end()
                                      ? changed->second
                                      : std::pair(cat("0.", number), std::to_string(number));
      const std::string price_text = text_element(price), item_text = text_element(name);
      asked->inputs.push_back(
          {"price", DataType::kBytes, {1, 1}, std::as_bytes(std::span(price_text))});
      asked->inputs.push_back(
          {"item", DataType::kBytes, {1, 1}, std::as_bytes(std::span(item_text))});
      scores.push_back(probabilities(service, std::move(asked)).at(0));
    }
    return scores;
  }

  static RankedRow sorted_by(const std::vector<float>& rank_scores,
                             const std::vector<ScoredItem>& items, size_t k) {
    std::vector<size_t> order(items.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return rank_scores[i]; });
    order.resize(std::min(k, order.size()));
    RankedRow row;
    for (const size_t i : order) {
      row.ids.push_back(items[i].id);
      row.scores.push_back(items[i].score);
      row.rank_scores.push_back(rank_scores[i]);
    }
    return row;
  }
};

TEST_F(RankedSearchTest, AnswersAreThoseOfASearchAndOfTheRankingModelBitForBit) {
  ModelServer server({.repository = repository()});
  for (const int64_t rows : {1, 3, 20}) {
    for (int64_t first = 0; first + rows <= kUsers; first += 2 * rows) {
      auto search = request(first, rows), asked = ranked_request(first, rows);
      search->top_k = 15;
      asked->top_k = 4;
      asked->candidates = 15;
      const FoundItems found = ask_for_items(server, std::move(search));
      const Ranked ranked = ask_for_ranked(server, std::move(asked));
      EXPECT_EQ(ranked.width, 4);
      EXPECT_EQ(ranked.parameters,
                (std::map<std::string, int64_t>{
                    {"index_version", 1}, {"index_change", 0}, {"rank_version", 1}}));
      for (int64_t row = 0; row < rows; ++row) {
        const auto items = found.row(row);
        EXPECT_EQ(ranked.rows.at(static_cast<size_t>(row)),
                  sorted_by(rank_scores_of(server, first + row, items), items, 4));
      }
    }
  }
}

TEST_F(RankedSearchTest, TenTimesTopKAreRankedUnlessTheRequestSays) {
  ModelServer server({.repository = repository()});
  auto search = request(0, 2), asked = ranked_request(0, 2);
  search->top_k = 20;
  asked->top_k = 2;
  const FoundItems found = ask_for_items(server, std::move(search));
  const Ranked ranked = ask_for_ranked(server, std::move(asked));
  for (int64_t row = 0; row < 2; ++row)
    EXPECT_EQ(ranked.rows.at(static_cast<size_t>(row)),
              sorted_by(rank_scores_of(server, row, found.row(row)), found.row(row), 2));
}

TEST_F(RankedSearchTest, RowsHaveTheirOwnNumberAndFilters) {
  ModelServer server({.repository = repository()});
  auto search = request(4, 3), asked = ranked_request(4, 3);
  const std::vector<int64_t> allow = {kFirstId + 3, kFirstId + 4, kFirstId + 5,  // two are in stock
                                      kNoItemId,    kNoItemId,    kNoItemId,     // no item
                                      kFirstId + 1, kFirstId + 2, kNoItemId};
  for (auto* one : {&search, &asked}) {
    (*one)->filter = "in_stock";
    add_ids(**one, "allow", 3, allow);
  }
  add_top_k(*asked, {1, 5, 2});
  const FoundItems found = ask_for_items(server, std::move(search));
  EXPECT_THAT(found.counts, testing::ElementsAre(2, 0, 2));
  const Ranked ranked = ask_for_ranked(server, std::move(asked));
  EXPECT_EQ(ranked.width, 5);
  const std::vector<size_t> top_k = {1, 5, 2};
  for (int64_t row = 0; row < 3; ++row)
    EXPECT_EQ(ranked.rows.at(static_cast<size_t>(row)),
              sorted_by(rank_scores_of(server, 4 + row, found.row(row)), found.row(row),
                        top_k[static_cast<size_t>(row)]));
}

TEST_F(RankedSearchTest, NothingFoundIsNothingRanked) {
  ModelServer server({.repository = repository()});
  auto asked = ranked_request(0, 2);
  add_ids(*asked, "allow", 2, {1, 2});
  const Ranked ranked = ask_for_ranked(server, std::move(asked));
  EXPECT_THAT(ranked.rows, Each(RankedRow()));
  EXPECT_EQ(ranked.width, 10);
}

// Users come as vectors, and as sequences in every form; outputs as they are named.
TEST_F(RankedSearchTest, UsersComeInAnyForm) {
  ModelServer server({.repository = repository()});
  auto asked = ranked_request(0, 3);
  const Ranked expected = ask_for_ranked(server, std::move(asked));
  const std::vector<int64_t> values = {0, 1, 1, 2, 2, 3}, offsets = {0, 2, 4, 6};
  const std::vector<int32_t> lengths = {2, 2, 2};
  const std::vector<int64_t> padded = {0, 1, 9, 1, 2, 9, 2, 3, 9};
  const auto with = [&](auto change) {
    auto made = ranked_request(0, 3);
    std::erase_if(made->inputs, [](const InputTensor& one) { return one.name == "seen__item"; });
    change(*made);
    return ask_for_ranked(server, std::move(made)).rows;
  };
  EXPECT_EQ(with([&](InferRequest& one) {
              one.inputs.push_back(tensor("seen__item", DataType::kInt64, {6}, values));
              one.inputs.push_back(tensor("seen__item.offsets", DataType::kInt64, {4}, offsets));
            }),
            expected.rows);
  EXPECT_EQ(with([&](InferRequest& one) {
              one.inputs.push_back(tensor("seen__item.lengths", DataType::kInt32, {3}, lengths));
              one.inputs.push_back(tensor("seen__item", DataType::kInt64, {3, 3}, padded));
            }),
            expected.rows);
  const std::vector<float> vectors = user_vectors(checkpoint_);
  auto by_vector = ranked_request(0, 3);
  std::erase_if(by_vector->inputs, [](const InputTensor& one) { return one.name == "age"; });
  by_vector->inputs.push_back({"user_vector",
                               DataType::kFp32,
                               {3, 6},
                               std::as_bytes(std::span(vectors)).first(3 * 6 * sizeof(float))});
  EXPECT_EQ(ask_for_ranked(server, std::move(by_vector)).rows, expected.rows);

  auto named = ranked_request(0, 3);
  named->id = "mine";
  named->outputs = {{"rank_scores"}, {"ids"}};
  const InferResult result = infer(server, std::move(named));
  const auto& response = std::get<InferResponse>(result);
  EXPECT_EQ(response.id, "mine");
  EXPECT_EQ(response.model, "rec");
  ASSERT_EQ(response.outputs.size(), 2u);
  EXPECT_EQ(elements_of<float>(response.outputs[0])[0], expected.rows[0].rank_scores[0]);
  EXPECT_EQ(elements_of<int64_t>(response.outputs[1])[0], expected.rows[0].ids[0]);
}

TEST_F(RankedSearchTest, RequestsThatCannotBeRankedAreRefused) {
  const SmallServedModel ctr;
  std::filesystem::copy(ctr.model_folder(), repository() + "/ctr",
                        std::filesystem::copy_options::recursive);
  const std::string several = R"(
train_input_path: "train" model_dir: "several"
train_config { sparse_optimizer { adagrad_optimizer { lr: 0.02 } }
               dense_optimizer { adam_optimizer { lr: 0.002 } } num_epochs: 1 }
data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_DAG batch_size: 16
              label_fields: "clk" label_fields: "buy" }
feature_configs { raw_feature { feature_name: "height" } }
feature_configs { id_feature { feature_name: "item" num_buckets: 60 embedding_dim: 4 } }
model_config {
  feature_groups { group_name: "all" feature_names: "height" feature_names: "item" }
  mmoe { expert_mlp { hidden_units: [4] } num_expert: 2
    task_towers { tower_name: "click" label_name: "clk" mlp { hidden_units: [4] }
                  losses { binary_cross_entropy {} } metrics { auc {} } }
    task_towers { tower_name: "buy" label_name: "buy" mlp { hidden_units: [4] }
                  losses { binary_cross_entropy {} } metrics { auc {} } } }
}
)";
  export_ranking(3, "several", several);
  folder_.write("repository/broken/1/manifest.json", "{");
  ModelServer server({.repository = repository()});
  const auto refusal = [&](auto change, ErrorCode code = ErrorCode::kInvalidArgument) {
    auto asked = ranked_request(0, 2);
    change(*asked);
    const InferResult result = infer(server, std::move(asked));
    const auto* error = std::get_if<Error>(&result);
    EXPECT_TRUE(error != nullptr && error->code() == code) << error_of(result);
    return error_of(result);
  };
  const auto with_model = [](const std::string& name) {
    return [name](InferRequest& r) { r.then_rank = name; };
  };
  EXPECT_THAT(refusal(with_model("nobody"), ErrorCode::kNotFound),
              AllOf(HasSubstr("then_rank"), HasSubstr("'nobody' is not found")));
  EXPECT_THAT(refusal(with_model("broken"), ErrorCode::kUnavailable),
              AllOf(HasSubstr("then_rank"), HasSubstr("model 'broken' is not ready")));
  EXPECT_THAT(refusal(with_model("rec")), HasSubstr("'rec' has an index of items"));
  EXPECT_THAT(refusal(with_model("ctr")),
              AllOf(HasSubstr("'ctr'"), HasSubstr("missing: categorical_features")));
  EXPECT_THAT(refusal([](InferRequest& r) { r.inputs.pop_back(); }),
              AllOf(HasSubstr("model 'rank'"), HasSubstr("missing: height")));
  EXPECT_THAT(refusal([](InferRequest& r) { r.inputs.back().name = "price"; }),
              AllOf(HasSubstr("'price'"), HasSubstr("is stored with the items")));
  EXPECT_THAT(refusal([&](InferRequest& r) {
                r.inputs.pop_back();
                add_heights(r, 0, 3);
              }),
              HasSubstr("rows"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.candidates = 9; }),
              HasSubstr("candidates is 9, expected 10 (top_k) to 10000"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.candidates = 10'001; }), HasSubstr("to 10000"));
  EXPECT_THAT(refusal([](InferRequest& r) {
                r.then_rank = "";
                r.inputs.pop_back();
                r.candidates = 20;
              }),
              HasSubstr("candidates needs then_rank"));
  EXPECT_THAT(refusal([](InferRequest& r) {
                r.then_rank = "";
                r.inputs.pop_back();
                r.rank_output = "probability";
              }),
              HasSubstr("rank_output needs then_rank"));
  EXPECT_THAT(refusal([](InferRequest& r) { r.rank_output = "price"; }),
              AllOf(HasSubstr("'price'"), HasSubstr("probability")));
  EXPECT_THAT(refusal([](InferRequest& r) { r.outputs = {{"probability"}}; }),
              HasSubstr("it has ids, scores, count, rank_scores"));
  EXPECT_THAT(refusal(with_model("several")),
              AllOf(HasSubstr("probs_click"), HasSubstr("choose one by parameter")));
  EXPECT_THAT(refusal([](InferRequest& r) {
                r.model = "rank";
                r.then_rank = "rank";
              }),
              HasSubstr("model 'rank' has no index of items"));
  auto chosen = ranked_request(0, 2);
  chosen->then_rank = "several";
  chosen->rank_output = "probs_buy";
  EXPECT_EQ(ask_for_ranked(server, std::move(chosen)).rows.size(), 2u);
  // Many rows of many candidates.
  auto many = ranked_request(0, 20);
  many->candidates = 10'000;
  many->top_k = 1;
  EXPECT_THAT(error_of(infer(server, std::move(many))), HasSubstr("the 100000 items"));
}

TEST_F(RankedSearchTest, AnIndexWithoutAColumnOfTheModelIsNamed) {
  export_with_columns({"price"});
  ModelServer server({.repository = repository()});
  EXPECT_THAT([&] { ask_for_ranked(server, ranked_request(0, 1)); },
              ThrowsMessage<Error>(AllOf(HasSubstr("then_rank"), HasSubstr("missing: item"))));
}

TEST_F(RankedSearchTest, ColumnsThatRequestsCannotTellApartAreNotStored) {
  std::string items = "sku,item,price,in_stock,new,ids,age\n";
  for (int64_t i = 0; i < kItems; ++i) items += cat(kFirstId + i, ",", i, ",0.5,1,1,", i, ",7\n");
  folder_.write("items.csv", items);
  const auto refusal = [&](const std::vector<std::string>& names) {
    try {
      export_with_columns(names);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("it was written");
  };
  EXPECT_THAT(refusal({"price", "price"}), HasSubstr("stored twice"));
  EXPECT_THAT(refusal({"ids"}), HasSubstr("\"ids\" cannot be stored"));
  EXPECT_THAT(refusal({"age"}), HasSubstr("the tower of users reads a column \"age\""));
  EXPECT_FALSE(std::filesystem::exists(repository() + "/rec/2"));
}

TEST_F(RankedSearchTest, ChangedItemsAreRankedByTheColumnsThatCameWithThem) {
  ModelServer server({.repository = repository(), .allow_item_changes = true});
  const std::vector<float> users = user_vectors(checkpoint_);
  const std::vector<int64_t> ids = {kFirstId + 5, 1};
  const std::vector<float> vectors(users.begin(), users.begin() + 12);
  const std::string prices = text_element("0.75") + text_element(""),
                    items = text_element("40") + text_element("41");
  InferRequest put;
  put.model = "rec";
  put.inputs = {tensor("ids", DataType::kInt64, {2}, ids),
                tensor("vectors", DataType::kFp32, {2, 6}, vectors)};
  EXPECT_THAT([&] { server.change_items(put, ItemChange::kPut); },
              ThrowsMessage<Error>(HasSubstr("input 'price' is missing")));
  put.inputs.push_back({"price", DataType::kBytes, {2}, std::as_bytes(std::span(prices))});
  put.inputs.push_back({"item", DataType::kBytes, {2}, std::as_bytes(std::span(items))});
  EXPECT_EQ(server.change_items(put, ItemChange::kPut).change, 1);
  auto search = request(0, 2), asked = ranked_request(0, 2);
  search->top_k = asked->top_k = asked->candidates = 12;
  const FoundItems found = ask_for_items(server, std::move(search));
  const Ranked ranked = ask_for_ranked(server, std::move(asked));
  EXPECT_EQ(ranked.parameters.at("index_change"), 1);
  EXPECT_EQ(found.row(0)[0].id, kFirstId + 5);
  EXPECT_EQ(found.row(1)[0].id, 1);
  const std::map<int64_t, std::pair<std::string, std::string>> texts = {
      {kFirstId + 5, {"0.75", "40"}}, {1, {"", "41"}}};
  for (int64_t row = 0; row < 2; ++row)
    EXPECT_EQ(ranked.rows.at(static_cast<size_t>(row)),
              sorted_by(rank_scores_of(server, row, found.row(row), texts), found.row(row), 12));
}

TEST_F(RankedSearchTest, MemoryOnTheWayIsTakenFromTheBudgetAndGivenBack) {
  MemoryBudget memory(size_t{16} << 20);
  ModelServer server({.repository = repository(), .requests = {.memory = &memory}});
  for (int i = 0; i < 120; ++i) ask_for_ranked(server, ranked_request(0, kUsers));
  auto large = ranked_request(0, 1);
  std::string values = "1";
  while (values.size() < size_t{256} << 10) values += "|1";
  const std::string text = text_element(values);
  std::erase_if(large->inputs, [](const InputTensor& one) { return one.name == "seen__item"; });
  large->inputs.push_back({"seen__item", DataType::kBytes, {1, 1}, std::as_bytes(std::span(text))});
  large->candidates = 60;
  EXPECT_THAT([&] { ask_for_ranked(server, std::move(large)); },
              testing::Throws<Error>(
                  testing::Property(&Error::code, testing::Eq(ErrorCode::kUnavailable))));
  EXPECT_EQ(ask_for_ranked(server, ranked_request(0, 1)).rows.size(), 1u);
}

// All items of an answer are ranked by the version that it names.
TEST_F(RankedSearchTest, ModelsAreReplacedWithoutAFailedOrMixedAnswer) {
  constexpr int64_t kVersions = 4;
  ModelServer server({.repository = repository()});
  std::atomic<int64_t> served = 1;
  std::atomic<bool> is_done = false;
  std::vector<std::vector<Ranked>> answers(2);
  std::vector<std::vector<std::unique_ptr<InferRequest>>> requests(2);
  const auto search = ask_for_items(server, [&] {
    auto one = request(0, 2);
    one->top_k = 30;
    return one;
  }());
  const auto prepared = ranked_request(0, 2);
  prepared->top_k = 5;
  prepared->candidates = 30;
  std::vector<std::thread> clients;
  for (auto& mine : answers)
    clients.emplace_back([&] {
      int64_t last = 0;
      do {
        mine.push_back(ask_for_ranked(server, std::make_unique<InferRequest>(*prepared)));
        last = mine.back().parameters.at("rank_version");
      } while (!is_done || last < kVersions);
    });
  std::map<int64_t, std::vector<RankedRow>> expected;
  const auto remember = [&](int64_t version) {
    for (int64_t row = 0; row < 2; ++row)
      expected[version].push_back(
          sorted_by(rank_scores_of(server, row, search.row(row)), search.row(row), 5));
  };
  remember(1);
  for (int64_t version = 2; version <= kVersions; ++version) {
    export_ranking(version + 10);
    server.look_for_changes();
    remember(version);
  }
  is_done = true;
  for (std::thread& client : clients) client.join();
  for (const auto& mine : answers)
    for (const Ranked& one : mine)
      ASSERT_EQ(one.rows, expected.at(one.parameters.at("rank_version")));
  EXPECT_NE(expected[1], expected[kVersions]);
}

TEST_F(RankedSearchTest, AServerThatEndsFinishesWhatItRanks) {
  std::vector<std::future<InferResult>> results;
  {
    ModelServer server({.repository = repository()});
    for (int i = 0; i < 20; ++i) {
      auto promise = std::make_shared<std::promise<InferResult>>();
      results.push_back(promise->get_future());
      server.infer(ranked_request(0, 5),
                   [promise](InferResult result) { promise->set_value(std::move(result)); });
    }
  }
  for (auto& result : results) {
    const InferResult answer = result.get();
    EXPECT_TRUE(std::holds_alternative<InferResponse>(answer)) << error_of(answer);
  }
}

// ---- stored columns ----

TEST(StoredColumns, ASearchFindsTheTextsOfItsChange) {
  const std::vector<int64_t> ids = {7, 3};
  const std::vector<std::string> values = {"a", "b", "", "d"};
  StoredColumns columns({"x", "y"}, ids, values);
  const auto texts = [&](int64_t id, int64_t change) {
    const std::vector<int64_t> one = {id};
    return std::string(columns.find(one, change)[0]);
  };
  const auto text_of = [](const std::string& x, const std::string& y) {
    std::string text;
    append_element(x, text);
    append_element(y, text);
    return text;
  };
  EXPECT_EQ(texts(7, 0), text_of("a", "b"));
  EXPECT_EQ(texts(3, 0), text_of("", "d"));
  const std::vector<int64_t> changed = {7, 9};
  columns.put(2, changed, {text_of("e", "f"), text_of("g", "h")});
  columns.put(3, changed, {text_of("i", "j"), text_of("k", "l")});
  EXPECT_EQ(texts(7, 1), text_of("a", "b"));
  EXPECT_EQ(texts(7, 2), text_of("e", "f"));
  EXPECT_EQ(texts(9, 3), text_of("k", "l"));
  columns.drop(3, changed);
  EXPECT_EQ(texts(9, 3), text_of("g", "h"));
  EXPECT_THAT([&] { texts(8, 3); }, ThrowsMessage<Error>(HasSubstr("item 8 has no columns")));
  EXPECT_THAT(StoredColumns().find(ids, 0), testing::ElementsAre("", ""));
}

TEST(StoredColumns, FilesThatDoNotFitEachOtherAreNamed) {
  const TempFolder folder;
  const std::vector<int64_t> ids = {7, 3};
  const std::vector<std::string> values = {"a", "b"};
  const std::string path = folder.path("columns");
  StoredColumns({"x"}, ids, values).save(path);
  EXPECT_EQ(StoredColumns::load(path)->find(ids, 0)[0], std::string("\1\0\0\0a", 5));
  const auto refusal = [&](const std::string& file, const std::string& bytes) {
    const std::string before = read_text_file(path + "/" + file);
    write_text_file_atomically(path + "/" + file, bytes);
    std::string said = "it was loaded";
    try {
      StoredColumns::load(path);
    } catch (const Error& error) {
      said = error.what();
    }
    write_text_file_atomically(path + "/" + file, before);
    return said;
  };
  const auto number = [](int64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  EXPECT_THAT(refusal("name.json", "{}"), HasSubstr("name.json is not a list"));
  EXPECT_THAT(refusal("id", number(7) + number(3)), HasSubstr("do not ascend"));
  EXPECT_THAT(refusal("id", "123"), HasSubstr("has 3 bytes"));
  EXPECT_THAT(refusal("end", number(5)), HasSubstr("1 numbers for 2 items"));
  EXPECT_THAT(refusal("end", number(5) + number(11)), HasSubstr("end at 11"));
  EXPECT_THAT(refusal("end", number(4) + number(10)), HasSubstr("at byte 0"));
  EXPECT_THAT(refusal("text", read_text_file(path + "/text") + "x"), HasSubstr("of no item"));
}

}  // namespace
}  // namespace emblem
