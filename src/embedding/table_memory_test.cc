// Memory that is not there: a batch fails, tables and lookups continue.
#include <gmock/gmock.h>

#include <cstdlib>
#include <numeric>

#include "core/memory/failing_new_test.h"
#include "embedding/tables_test.h"

namespace emblem {
namespace {

class TableMemoryTest : public TablesTest {
 protected:
  void SetUp() override {
    TablesTest::SetUp();
    context_.threads = nullptr;  // so that allocations have an order
  }
};
EMBLEM_TEST_TRANSFERS_TOO(TableMemoryTest);

// `count` different keys from `first` on, one a bag.
Bags keys_from(int64_t first, int64_t count) {
  Bags bags;
  bags.keys.resize(static_cast<size_t>(count));
  std::iota(bags.keys.begin(), bags.keys.end(), first);
  return bags;
}

// More keys than a table has room for at first.
int64_t many_keys(const Context& context) { return context.device == Device::kCpu ? 3000 : 70000; }

// A table that grows and one with a cache on a GPU.
struct TableMemoryTrained {
  static constexpr int64_t kFew = 50;

  std::unique_ptr<Table> grows, cached;
  TestLookup lookup;

  explicit TableMemoryTrained(const Context& context)
      : grows(make_table(context, {.name = "grows",
                                   .dim = 4,
                                   .kind = TableKind::kDynamic,
                                   .rule = AdaGrad{},
                                   .bins = 4})),
        cached(make_table(context, {.name = "cached",
                                    .dim = 8,
                                    .kind = TableKind::kDynamic,
                                    .capacity = 2 * many_keys(context),
                                    .rule = AdaGrad{},
                                    .placement = Placement::kCache,
                                    .device_bytes = 2000 * 64})),
        lookup(context, {{grows.get()}, {cached.get()}}, Sums::kDeterministic) {}

  std::vector<float> forward(int64_t first, int64_t count) {
    return lookup.forward({keys_from(first, count), keys_from(first, count)}, count);
  }
  std::vector<float> step(int64_t first, int64_t count, const std::vector<float>& gradients) {
    std::vector<float> rows = forward(first, count);
    lookup.backward(gradients);
    return rows;
  }
};

struct Contents {
  Content grows, cached;
  Contents(const Context& context, const TableMemoryTrained& run)
      : grows(content_of(context, *run.grows)), cached(content_of(context, *run.cached)) {}
  void expect_equal(const Contents& other) const {
    for (const auto& [a, b] : {std::pair(&grows, &other.grows), {&cached, &other.cached}}) {
      EXPECT_EQ(a->keys, b->keys);
      EXPECT_EQ(a->weights, b->weights);
      EXPECT_EQ(a->states, b->states);
    }
  }
};

TEST_P(TableMemoryTest, AStepWithoutMemoryCanBeRepeated) {
  const int64_t width = 12;
  const std::vector<float> few(TableMemoryTrained::kFew * width, 0.5f),
      many(many_keys(context_) * width, 0.25f);
  TableMemoryTrained whole(context_);
  whole.step(0, TableMemoryTrained::kFew, few);
  const std::vector<float> rows = whole.step(10, many_keys(context_), many);
  const Contents expected(context_, whole);
  std::unique_ptr<TableMemoryTrained> run;
  const int64_t allocations = fail_each_allocation(
      failing_on(context_.device),
      [&] {
        run = std::make_unique<TableMemoryTrained>(context_);
        run->step(0, TableMemoryTrained::kFew, few);
      },
      [&] { return run->step(10, many_keys(context_), many); },
      [&](const std::optional<std::vector<float>>& found) {
        // What has a row has values: nothing that an evaluation reads is not a number.
        for (const float value :
             run->lookup.forward({keys_from(0, 80), keys_from(0, 80)}, 80, Phase::kEval))
          ASSERT_LT(std::abs(value), 10.0f);
        if (found) {
          EXPECT_EQ(*found, rows);
        } else {
          EXPECT_EQ(run->step(10, many_keys(context_), many), rows);
        }
        Contents(context_, *run).expect_equal(expected);
      });
  EXPECT_GT(allocations, 10);
}

TEST_P(TableMemoryTest, ATableWithoutMemoryCanBeMadeAgain) {
  const std::vector<float> few(TableMemoryTrained::kFew * 12, 0.5f);
  TableMemoryTrained whole(context_);
  whole.step(0, TableMemoryTrained::kFew, few);
  const Contents expected(context_, whole);
  std::unique_ptr<TableMemoryTrained> run;
  const int64_t allocations = fail_each_allocation(
      failing_on(context_.device), [&] { run.reset(); },
      [&] {
        run = std::make_unique<TableMemoryTrained>(context_);
        return true;
      },
      [&](const std::optional<bool>& made) {
        if (!made) run = std::make_unique<TableMemoryTrained>(context_);
        run->step(0, TableMemoryTrained::kFew, few);
        Contents(context_, *run).expect_equal(expected);
      });
  EXPECT_GT(allocations, 5);
}

TEST_P(TableMemoryTest, AnImportWithoutMemoryCanBeRepeated) {
  const std::vector<int64_t> keys = keys_from(5, 3000).keys;
  const std::vector<float> weights(keys.size() * 4, 1.5f);
  std::unique_ptr<TableMemoryTrained> run;
  const int64_t allocations = fail_each_allocation(
      failing_on(context_.device), [&] { run = std::make_unique<TableMemoryTrained>(context_); },
      [&] {
        run->grows->import_rows(context_, {keys, weights});
        return true;
      },
      [&](const std::optional<bool>& imported) {
        std::vector<float> row(4);
        for (const int64_t key : keys)
          if (run->grows->read(key, row)) {
            EXPECT_EQ(row, std::vector<float>(4, 1.5f));
          }
        if (!imported) run->grows->import_rows(context_, {keys, weights});
        EXPECT_EQ(content_of(context_, *run->grows).weights, weights);
      });
  EXPECT_GT(allocations, 2);
}

// What GPUs of compute capability 8.6 and 8.9 have: rows of many floats are not fetched ahead.
TEST_P(TableMemoryTest, LongRowsNeedNoMoreThan99KiBOfSharedMemory) {
  for (const Rule& rule : {Rule(AdaGrad{}), Rule(Adam{})}) {
    for (const int64_t dim : {int64_t{200}, int64_t{1024}}) {
      std::vector<Content> contents;
      for (const Context& context : {Context{}, context_}) {
        if (context.device == Device::kCuda) setenv("EMBLEM_TEST_SHARED_MEMORY_BYTES", "101376", 1);
        const auto table =
            make_table(context, {.name = "long", .dim = dim, .capacity = 40, .rule = rule});
        TestLookup lookup(context, {{table.get()}, {table.get()}});
        lookup.forward({keys_from(0, 30), keys_from(5, 30)}, 30);
        lookup.backward(std::vector<float>(static_cast<size_t>(30 * 2 * dim), 0.5f));
        contents.push_back(content_of(context, *table));
        unsetenv("EMBLEM_TEST_SHARED_MEMORY_BYTES");
      }
      ASSERT_EQ(contents[0].weights.size(), contents[1].weights.size());
      for (size_t i = 0; i < contents[0].weights.size(); ++i)
        ASSERT_NEAR(contents[1].weights[i], contents[0].weights[i], 1e-5) << dim << " at " << i;
    }
  }
}

}  // namespace
}  // namespace emblem
