#include "serve/split/table_parts.h"

#include <gmock/gmock.h>

#include "core/threads/becomes_true_test.h"
#include "ps/parameter_server.h"
#include "serve/engine/hps/table_sources.h"
#include "serve/repository/small_model_test.h"
#include "serve/split/parts_servable.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string problem_of(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

class TablePartsTest : public testing::Test {
 protected:
  std::string folder(int64_t version) const {
    return model.model_folder() + "/" + std::to_string(version);
  }
  std::unique_ptr<Servable> open(TableParts& parts, int64_t version) {
    return open_parts("ctr", version, folder(version), server, parts);
  }
  RowRequest request(const std::string& table, std::vector<int64_t> keys) const {
    return {.number = 9, .model = model_id_of("ctr", 1, folder(1)), .tables = {{table, 4, keys}}};
  }
  static std::vector<std::byte> ask(TableParts& parts, const RowRequest& request) {
    const std::string bytes = encode(request);
    MemoryBudget::Lease lease;
    return parts.rows(std::as_bytes(std::span(bytes)), lease);
  }
  // Rows by key; keys that are not found are skipped.
  static std::map<int64_t, std::vector<float>> rows(TableParts& parts, const RowRequest& request) {
    std::map<int64_t, std::vector<float>> result;
    const std::vector<std::byte> answer = ask(parts, request);
    read_answer(request, {reinterpret_cast<const char*>(answer.data()), answer.size()},
                [&](size_t t, const char* from, const uint8_t* found) {
                  for (size_t i = 0; i < request.tables[t].keys.size(); ++i) {
                    std::vector<float> row(4);
                    std::memcpy(row.data(), from + i * 16, 16);
                    if (found[i] != 0) result[request.tables[t].keys[i]] = row;
                  }
                });
    return result;
  }
  static StatusAnswer status(TableParts& parts, const StatusRequest& request = {}) {
    const std::string bytes = encode(request);
    return decode_status_answer(parts.status(std::as_bytes(std::span(bytes))));
  }

  SmallServedModel model;
  ParameterServer server;
};

TEST_F(TablePartsTest, TogetherServersHaveTheRowsOfOne) {
  TableParts all({.parts = {}});
  const auto everything = open(all, 1);
  for (const auto& [table, is_hashed] : {std::pair("C2_emb", false), std::pair("C3_emb", true)}) {
    std::vector<int64_t> keys;
    for (int64_t key = 0; key < 30; ++key) keys.push_back(is_hashed ? key * 1'000'003 : key);
    const auto expected = rows(all, request(table, keys));
    EXPECT_GT(expected.size(), 20u);
    std::map<int64_t, std::vector<float>> together;
    for (int32_t i = 0; i < 3; ++i) {
      TableParts third({.parts = part_range_of(i, 3)});
      const auto held = open(third, 1);
      std::vector<int64_t> own;
      for (const int64_t key : keys)
        if (PartFilter{third.parts(), is_hashed}.takes(key)) own.push_back(key);
      EXPECT_GT(own.size(), 3u);
      together.merge(rows(third, request(table, own)));
    }
    EXPECT_EQ(together, expected);
  }
}

TEST_F(TablePartsTest, WhatIsNotHeldIsRefused) {
  TableParts parts({.parts = {0, 2048}});
  const auto held = open(parts, 1);
  EXPECT_THAT(problem_of([&] {
                ask(parts, request("C2_emb", {0, 1}));
              }),
              HasSubstr("a key of part 2048 of table C2_emb is requested, but this table server "
                        "holds parts 0-2047"));
  EXPECT_THAT(problem_of([&] { ask(parts, request("C9_emb", {0})); }), HasSubstr("has no table"));
  RowRequest other = request("C2_emb", {0});
  other.tables[0].dim = 5;
  EXPECT_THAT(problem_of([&] { ask(parts, other); }),
              HasSubstr("rows of dimension 5 of table C2_emb are requested, but it has"));
  other = request("C2_emb", {0});
  other.model.version = 2;
  EXPECT_THAT(problem_of([&] { ask(parts, other); }),
              HasSubstr("version 2 is not on this table server; it has version 1"));
  other = request("C2_emb", {0});
  other.model.content ^= 1;
  EXPECT_THAT(problem_of([&] { ask(parts, other); }), HasSubstr("1 (with other files)"));
  other = request("C2_emb", {0});
  other.model.model = "other";
  EXPECT_THAT(problem_of([&] { ask(parts, other); }), HasSubstr("no version of the model"));
  EXPECT_THAT(parts.metrics(), HasSubstr("emblem_row_requests_refused_total 6\n"));
}

TEST_F(TablePartsTest, LargeAnswersAreRefused) {
  TableParts parts({.parts = {}, .max_answer_bytes = 1000});
  const auto held = open(parts, 1);
  EXPECT_NO_THROW(ask(parts, request("C2_emb", std::vector<int64_t>(50))));
  EXPECT_THAT(problem_of([&] { ask(parts, request("C2_emb", std::vector<int64_t>(60))); }),
              HasSubstr("--max-response-size"));
}

TEST_F(TablePartsTest, AReplacedVersionStaysWhileItIsUsed) {
  using std::chrono::milliseconds;
  TableParts parts({.parts = {}, .keep = milliseconds(500)});
  auto first = open(parts, 1);
  model.train(1);
  model.export_version();
  const ModelId one = model_id_of("ctr", 1, folder(1)), two = model_id_of("ctr", 2, folder(2));
  const auto second = open(parts, 2);
  first.reset();
  EXPECT_THAT(status(parts).models, ElementsAre(one, two));
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < begin + milliseconds(1500)) {
    ASSERT_THAT(status(parts, {{one}}).models, ElementsAre(one, two));
    ASSERT_NO_THROW(ask(parts, request("C2_emb", {1})));
  }
  EXPECT_TRUE(becomes_true([&] { return status(parts).models == std::vector{two}; }));
  EXPECT_THROW(ask(parts, request("C2_emb", {1})), Error);
}

TEST_F(TablePartsTest, TheFirstVersionBringsTheOneBefore) {
  model.train(1);
  model.export_version();
  model.train(1);
  model.export_version();
  TableParts parts({.parts = {}});
  const auto third = open(parts, 3);
  EXPECT_THAT(parts.held(),
              ElementsAre(model_id_of("ctr", 2, folder(2)), model_id_of("ctr", 3, folder(3))));
}

// It is read on the thread of its connection, beside the budget.
TEST_F(TablePartsTest, RequestsForTheStatusAreSmall) {
  TableParts parts({});
  StatusRequest request;
  for (int i = 0; i < 300; ++i) request.in_use.push_back({std::string(4000, 'x'), i, 0});
  EXPECT_THAT(problem_of([&] { status(parts, request); }), HasSubstr("expected at most 1048576"));
  request.in_use.resize(200);
  EXPECT_TRUE(status(parts, request).models.empty());
}

TEST_F(TablePartsTest, NamesOfModelsAreShownInFull) {
  TableParts parts({});
  RowRequest unknown = request("C1_emb", {1});
  unknown.model.model = std::string("a\0b", 3);
  EXPECT_THAT(problem_of([&] { ask(parts, unknown); }), HasSubstr("is not on this table server"));
}

}  // namespace
}  // namespace emblem
