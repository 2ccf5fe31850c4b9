// What goes wrong in worker threads reaches next() as an Error, and nothing hangs or ends the
// process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory_resource>
#include <new>

#include "data/test_data.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;

// Gives out `left` blocks, then none.
class ScarceMemory final : public std::pmr::memory_resource {
 public:
  explicit ScarceMemory(int64_t blocks) : left_(blocks) {}

 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    if (left_.fetch_sub(1) <= 0) throw std::bad_alloc();
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* block, size_t bytes, size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::atomic<int64_t> left_;
};

class LoaderFailure : public testing::Test {
 protected:
  LoaderFailure() {
    options_.input = folder_.write("a.tsv", as_tsv(random_rows(2000, 3)));
    options_.batch_size = 48;  // not a piece: batches are put together
    options_.piece_bytes = 3000;
    options_.workers = 3;
    options_.shuffle = true;
    options_.shuffle_rows = 300;
  }
  TempFolder folder_;
  LoaderOptions options_;
  const TestPipeline pipeline_{R"(
    data_config { dataset_type: CriteoTsvDataset fg_mode: FG_DAG num_dense: 2 num_sparse: 3 }
    feature_configs { raw_feature { feature_name: "I{1..2}" } }
    feature_configs { id_feature { feature_name: "C{1..3}" embedding_dim: 4 dynamicemb { max_capacity: 10 } } })"};
};

TEST_F(LoaderFailure, MemoryThatIsUsedUpInAWorkerIsAnErrorOfNext) {
  // Wherever it is used up: while pieces are decoded or while batches are put together.
  for (const int64_t blocks : {0, 1, 5, 20, 40, 60, 80, 120}) {
    ScarceMemory memory(blocks);
    options_.memory = &memory;
    std::string message;
    int64_t batches = 0;
    {
      Loader loader(pipeline_.config.data_config(), pipeline_.features, options_);
      try {
        Batch batch = batch_in(&memory);
        while (loader.next(batch)) ++batches;
      } catch (const Error& error) {
        message = error.what();
        EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      }
      if (!message.empty()) {
        Batch batch;
        EXPECT_THROW(loader.next(batch), Error) << "it stays failed";
      }
    }
    if (batches == (2000 + 47) / 48) continue;  // enough for all
    EXPECT_THAT(message,
                HasSubstr("out of memory while loading data; lower data_config.batch_size"))
        << blocks;
  }
}

TEST_F(LoaderFailure, BatchesBeforeTheFailureAreGivenOut) {
  ScarceMemory plenty(1 << 30);
  options_.memory = &plenty;
  options_.shuffle = false;
  options_.workers = 1;
  options_.input += "," + folder_.write("b.tsv", "0\tx\t1\t1\t1\t1\n");
  Loader loader(pipeline_.config.data_config(), pipeline_.features, options_);
  Batch batch;
  int64_t rows = 0;
  try {
    while (loader.next(batch)) rows += batch.rows;
    FAIL() << "the bad row was not found";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("b.tsv:1: column I1"));
  }
  EXPECT_GT(rows, 1900);
}

}  // namespace
}  // namespace emblem
