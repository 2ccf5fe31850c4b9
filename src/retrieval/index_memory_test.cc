// Memory that is not there: a search or a change fails and can be repeated.
#include "core/memory/failing_new_test.h"
#include "retrieval/index_items_test.h"

namespace emblem {
namespace {

constexpr int64_t kItemsBefore = 120;

class IndexMemoryTest : public AllocationTest {
 protected:
  // Of the kinds that the device searches.
  std::vector<IndexSettings> settings() const {
    std::vector<IndexSettings> all = {
        {.dim = kItemDim},
        {.dim = kItemDim, .similarity = Similarity::kCosine, .attributes = {"a", "b"}}};
    if (context_.device == Device::kCpu)
      all.push_back({.dim = kItemDim, .kind = IndexKind::kIvfFlat, .lists = 8});
    return all;
  }
  std::unique_ptr<Index> index_of(const IndexSettings& settings, const Vectors& items) const {
    GivenItems given(items);
    if (settings.attributes.empty()) given.attributes.clear();
    return Index::build(context_, settings, given.items());
  }
  // Calls change(index) with each of its allocations failing once, on an index of `before`: the
  // index has the items of before, or those of `after`.
  template <class Change>
  void expect_all_or_nothing(const Vectors& before, const Vectors& after, const Change& change) {
    for (const IndexSettings& each : settings()) {
      std::unique_ptr<Index> index;
      const int64_t allocations = fail_each_allocation(
          failing_on(context_.device), [&] { index = index_of(each, before); },
          [&] {
            change(*index);
            return true;
          },
          [&](const std::optional<bool>& changed) {
            if (!changed) {
              expect_finds(context_, *index, before);
              change(*index);
            }
            expect_finds(context_, *index, after);
          });
      EXPECT_GT(allocations, 0);
    }
  }
};
EMBLEM_TEST_ON_EVERY_DEVICE(IndexMemoryTest);

TEST_P(IndexMemoryTest, ASearchCanBeRepeated) {
  const std::vector<float> query = vector_of(0, 9);
  for (const IndexSettings& each : settings()) {
    const auto index = index_of(each, some_items(0, kItemsBefore));
    const SearchOptions options{.k = 20, .probes = 1 << 20, .exclude = {{3, 5}}};
    const auto search = [&] {
      return index->search(context_, {query.data(), 1, kItemDim}, options);
    };
    const auto expected = search();
    const int64_t allocations = fail_each_allocation(
        failing_on(context_.device), [] {}, search,
        [&](const auto& found) {
          if (found) {
            EXPECT_EQ(*found, expected);
          }
          EXPECT_EQ(search(), expected);
        });
    EXPECT_GT(allocations, 0);
  }
}

TEST_P(IndexMemoryTest, AnAdditionIsMadeAsAWholeOrNotAtAll) {
  const Vectors before = some_items(0, kItemsBefore), more = some_items(kItemsBefore - 20, 40, 2);
  Vectors after = before;
  for (const auto& [id, vector] : more) after[id] = vector;
  GivenItems given(more);
  given.attributes.clear();
  expect_all_or_nothing(
      before, after, [&](Index& index) { index.add(context_, given.items(), Existing::kReplace); });
}

TEST_P(IndexMemoryTest, ARemovalIsMadeAsAWholeOrNotAtAll) {
  const Vectors before = some_items(0, kItemsBefore);
  const std::vector<int64_t> gone = {7, 70, 119};
  Vectors after = before;
  for (const int64_t id : gone) after.erase(id);
  expect_all_or_nothing(before, after, [&](Index& index) { index.remove(gone); });
}

TEST_P(IndexMemoryTest, ARebuildLosesNothing) {
  const Vectors items = some_items(0, 24);
  expect_all_or_nothing(items, items, [&](Index& index) { index.rebuild(context_); });
}

}  // namespace
}  // namespace emblem
