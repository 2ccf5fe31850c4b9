// Items of a served index that change.
#include <atomic>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "core/math/random.h"
#include "core/text/joined.h"
#include "serve/repository/index_version_test.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ItemChangesTest : public IndexVersionTest {};

// A request that changes items, and its memory.
struct SentItems {
  std::vector<int64_t> ids;
  std::vector<float> vectors;
  std::string attributes;
  InferRequest request;

  SentItems(std::vector<int64_t> changed, std::vector<float> put = {},
            const std::vector<std::string>& names = {})
      : ids(std::move(changed)), vectors(std::move(put)) {
    const auto count = std::ssize(ids);
    request.model = "rec";
    request.inputs = {{"ids", DataType::kInt64, {count}, std::as_bytes(std::span(ids))}};
    if (!vectors.empty())
      request.inputs.push_back({"vectors",
                                DataType::kFp32,
                                {count, std::ssize(vectors) / count},
                                std::as_bytes(std::span(vectors))});
    for (const std::string& name : names) {
      const auto size = static_cast<uint32_t>(name.size());
      attributes.append(reinterpret_cast<const char*>(&size), sizeof size).append(name);
    }
    if (!names.empty())
      request.inputs.push_back({"attributes",
                                DataType::kBytes,
                                {std::ssize(names)},
                                std::as_bytes(std::span(attributes))});
  }
  SentItems(const SentItems&) = delete;
};

// Vectors of 6 elements.
std::vector<float> some_vectors(int64_t count, uint64_t stream) {
  std::vector<float> vectors(static_cast<size_t>(count * 6));
  for (size_t i = 0; i < vectors.size(); ++i) vectors[i] = random_normal(1, stream, i);
  return vectors;
}

TEST_F(ItemChangesTest, ItemsOfAServedIndexAreChanged) {
  ModelServer server({.repository = repository(), .allow_item_changes = true});
  const std::vector<float> users = user_vectors(checkpoint_), vectors = some_vectors(2, 1);
  const auto expect_equal = [&](const std::vector<std::string>& attributes, int64_t change) {
    const auto expected =
        index_->search({}, {users.data(), kUsers, 6}, {.k = 10, .allow = attributes});
    auto asked = request(0, kUsers);
    asked->filter = joined(attributes, ",");
    const FoundItems found = ask_for_items(server, std::move(asked));
    for (int64_t row = 0; row < kUsers; ++row) EXPECT_EQ(found.row(row), expected[row]);
    EXPECT_EQ(found.parameters[1].second, change);
  };
  const SentItems put({kFirstId + 5, 1}, vectors, {"", "new,in_stock"});
  const ItemsChanged changed = server.change_items(put.request, ItemChange::kPut);
  EXPECT_EQ(changed.version, "1");
  EXPECT_EQ(changed.change, 1);
  EXPECT_EQ(changed.items, kItems + 1);
  const std::vector<uint64_t> bits = {0, 3};
  index_->add({}, {put.ids, {vectors.data(), 2, 6}, bits}, Existing::kReplace);
  expect_equal({}, 1);
  expect_equal({"new", "in_stock"}, 1);
  const SentItems gone({1, kFirstId + 7});
  EXPECT_EQ(server.change_items(gone.request, ItemChange::kRemove).items, kItems - 1);
  index_->remove(gone.ids);
  expect_equal({}, 2);
  expect_equal({"new"}, 2);
}

TEST_F(ItemChangesTest, ChangesThatDoNotFitAreRefusedAndChangeNothing) {
  MemoryBudget memory(size_t{1} << 20);
  ModelServer server(
      {.repository = repository(), .allow_item_changes = true, .requests = {.memory = &memory}});
  const auto refusal = [&](const SentItems& sent, ItemChange change = ItemChange::kPut) {
    try {
      server.change_items(sent.request, change);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("it was done");
  };
  const std::vector<float> one = some_vectors(1, 1), two = some_vectors(2, 1);
  std::vector<float> nan = two;
  nan[8] = std::nanf("");
  EXPECT_THAT(refusal({{1}}), HasSubstr("input 'vectors' is missing"));
  EXPECT_THAT(refusal({{1, 2}, one}), HasSubstr("'vectors' has shape [2,3], expected [2,6]"));
  EXPECT_THAT(refusal({{1, 2}, nan}), HasSubstr("the vector of item 2 contains NaN"));
  EXPECT_THAT(refusal({{3, 3}, two}), HasSubstr("duplicate item id 3"));
  EXPECT_THAT(refusal({{1}, std::vector<float>(6)}), HasSubstr("all zeros"));
  EXPECT_THAT(refusal({{1}, one, {"old"}}),
              AllOf(HasSubstr("unknown attribute \"old\""), HasSubstr("in_stock, new")));
  EXPECT_THAT(refusal({{1}, one, {"new", "new"}}), HasSubstr("'attributes' has shape [2]"));
  EXPECT_THAT(refusal({{kFirstId, 5}}, ItemChange::kRemove),
              AllOf(HasSubstr("item 5 is not in the index"), HasSubstr("nothing was removed")));
  EXPECT_THAT(refusal({{kFirstId}, one}, ItemChange::kRemove),
              HasSubstr("unexpected input 'vectors'; items are removed by their ids"));
  std::vector<int64_t> many(20'000);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_THAT(refusal({many, some_vectors(20'000, 1)}), HasSubstr("memory"));
  EXPECT_EQ(memory.used(), 0u);
  const FoundItems found = ask_for_items(server, request(0, 1));
  EXPECT_EQ(found.parameters[1].second, 0);
  EXPECT_EQ(refusal({{1}, one}), "it was done");
}

TEST_F(ItemChangesTest, ItemsChangeOnlyWhereThatIsAllowedAndThereIsAnIndex) {
  export_model(checkpoint_, repository() + "/plain");
  ModelServer closed({.repository = repository()}),
      open({.repository = repository(), .allow_item_changes = true});
  SentItems sent({1}, some_vectors(1, 1));
  EXPECT_THAT([&] { closed.change_items(sent.request, ItemChange::kPut); },
              ThrowsMessage<Error>(HasSubstr("--allow-item-changes")));
  sent.request.model = "plain";
  EXPECT_THAT([&] { open.change_items(sent.request, ItemChange::kPut); },
              ThrowsMessage<Error>(HasSubstr("model 'plain' has no index of items")));
  sent.request.model = "other";
  EXPECT_THAT([&] { open.change_items(sent.request, ItemChange::kPut); },
              ThrowsMessage<Error>(HasSubstr("'other' is not found")));
}

// Every answer is that of an offline index of its version after its change.
TEST_F(ItemChangesTest, AnswersAreThoseOfTheirChangeWhileItemsAndVersionsAreReplaced) {
  constexpr int64_t kVersions = 3, kChanges = 120, kSearchers = 2, kAsked = 4, kLarge = 3000;
  const std::vector<float> queries = some_vectors(kAsked, 9);
  ModelServer server({.repository = repository(), .allow_item_changes = true});
  std::map<int64_t, std::unique_ptr<Index>> offline;
  offline[1] = std::move(index_);

  struct Made {
    std::unique_ptr<SentItems> sent;
    ItemChange change;
    ItemsChanged answer;
  };
  std::vector<Made> made;
  std::atomic<int64_t> changes_made = 0, versions_served = 1;
  std::atomic<bool> is_done = false;
  std::atomic<int> unseen = 0;
  const auto ask = [&] {
    auto asked = std::make_unique<InferRequest>();
    asked->model = "rec";
    asked->inputs = {tensor("user_vector", DataType::kFp32, {kAsked, 6}, queries)};
    return ask_for_items(server, std::move(asked));
  };
  // Items are put a few at a time, and sometimes enough that segments are merged later.
  std::thread changing([&] {
    std::set<int64_t> there;
    int64_t version = 1;
    for (int64_t at = 0; at < kChanges; ++at) {
      // The version after the next is replaced while these changes are made.
      const int64_t least = 1 + at * (kVersions - 1) / kChanges;
      for (int64_t now = versions_served; now < least; now = versions_served)
        versions_served.wait(now);
      const int64_t count = at % 20 == 3 ? kLarge : 3, first = 10 * (at % 7);
      const bool removes = at % 4 == 3 && there.contains(first);
      std::vector<int64_t> ids;
      for (int64_t id = first; id < first + (removes ? 2 : count); ++id) ids.push_back(id);
      made.push_back({std::make_unique<SentItems>(
                          ids, removes ? std::vector<float>()
                                       : some_vectors(count, static_cast<uint64_t>(at) + 100)),
                      removes ? ItemChange::kRemove : ItemChange::kPut,
                      {}});
      Made& last = made.back();
      try {
        last.answer = server.change_items(last.sent->request, last.change);
      } catch (const Error& error) {  // another version is served by now: it has no such items
        EXPECT_EQ(error.code(), ErrorCode::kNotFound) << error.what();
        made.pop_back();
        there.clear();
        continue;
      }
      if (std::stoll(last.answer.version) != version) there.clear();
      version = std::stoll(last.answer.version);
      if (removes)
        there.erase(first);
      else
        there.insert(first);
      changes_made = at + 1;
      changes_made.notify_all();
      const FoundItems found = ask();
      const int64_t seen = found.parameters[0].second;
      unseen +=
          seen < version || (seen == version && found.parameters[1].second < last.answer.change);
    }
    is_done = true;
  });
  std::thread replacing([&] {
    for (int64_t version = 2; version <= kVersions; ++version) {
      for (int64_t now = changes_made; now < (version - 1) * kChanges / (kVersions + 1);
           now = changes_made)
        changes_made.wait(now);
      checkpoint_ = checkpoint_of(kMatchingPipeline, cat("model", version), version);
      export_version();
      offline[version] = std::move(index_);
      server.look_for_changes();
      versions_served = version;
      versions_served.notify_all();
    }
  });
  std::vector<std::vector<FoundItems>> answers(kSearchers);
  std::vector<std::thread> searching;
  for (auto& mine : answers)
    searching.emplace_back([&] {
      do mine.push_back(ask());
      while (!is_done);
    });
  changing.join();
  replacing.join();
  for (std::thread& thread : searching) thread.join();
  EXPECT_EQ(unseen, 0);

  std::map<std::pair<int64_t, int64_t>, std::vector<std::vector<ScoredItem>>> expected;
  const auto remember = [&](int64_t version, int64_t change) {
    expected[{version, change}] = offline[version]->search({}, {queries.data(), kAsked, 6}, {});
  };
  for (const auto& [version, index] : offline) remember(version, 0);
  for (const Made& one : made) {
    const int64_t version = std::stoll(one.answer.version);
    Index& index = *offline[version];
    const View<const float> vectors{one.sent->vectors.data(), std::ssize(one.sent->ids), 6};
    const int64_t change = one.change == ItemChange::kRemove
                               ? index.remove(one.sent->ids)
                               : index.add({}, {one.sent->ids, vectors}, Existing::kReplace);
    EXPECT_EQ(change, one.answer.change);
    EXPECT_EQ(index.count(), one.answer.items);
    remember(version, change);
  }
  std::set<int64_t> versions;
  for (const auto& mine : answers) {
    for (const FoundItems& found : mine) {
      const std::pair state(found.parameters[0].second, found.parameters[1].second);
      versions.insert(state.first);
      ASSERT_TRUE(expected.contains(state)) << state.first << " " << state.second;
      for (int64_t row = 0; row < kAsked; ++row)
        ASSERT_EQ(found.row(row), expected[state][static_cast<size_t>(row)])
            << "version " << state.first << " change " << state.second;
    }
  }
  EXPECT_TRUE(versions.contains(1));
}

}  // namespace
}  // namespace emblem
