#include "train/run/batch_stream.h"

#include <gmock/gmock.h>

#include "core/device/device_test.h"

namespace emblem {
namespace {

using testing::ThrowsMessage;

// Batches of different sizes whose every value says their number. Two take turns, as those of a
// loader do, so that a copy that is read too late shows.
class Numbered {
 public:
  Numbered(std::pmr::memory_resource* memory, int count)
      : turns_{batch_in(memory), batch_in(memory)}, count_(count) {}

  const Batch* next() {
    if (given_ == fail_at) throw Error(ErrorCode::kCorruption, "row 7 is bad");
    if (given_ == count_) return nullptr;
    Batch& batch = turns_[given_ % 2];
    batch.rows = 1000 + 400 * (given_ % 3);
    const auto rows = static_cast<size_t>(batch.rows);
    batch.dense.assign(2 * rows, static_cast<float>(given_));
    batch.labels.assign(rows, static_cast<float>(given_));
    batch.resize_sparse(2);
    for (SparseColumn& column : batch.sparse) column.keys.assign(rows, given_);
    ++given_;
    return &batch;
  }
  int given() const { return given_; }
  int fail_at = -1;

 private:
  Batch turns_[2];
  int count_, given_ = 0;
};

class BatchStreams : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    stream_ = use_own_stream(context_);
    memory_ = batch_memory(context_);
  }
  BatchStream over(Numbered& source) {
    return BatchStream(context_, [&] { return source.next(); });
  }
  void expect_number(const ModelBatch& batch, int number) {
    const auto rows = static_cast<size_t>(1000 + 400 * (number % 3));
    EXPECT_EQ(batch.rows, static_cast<int64_t>(rows));
    EXPECT_EQ(batch.dense.cols, 2);
    EXPECT_EQ(to_host(context_, batch.dense), std::vector<float>(2 * rows, number));
    EXPECT_EQ(to_host(context_, batch.labels), std::vector<float>(rows, number));
    for (const FeatureKeys& feature : batch.sparse) {
      EXPECT_EQ(to_host(context_, feature.keys), std::vector<int64_t>(rows, number));
      EXPECT_EQ(feature.offsets.size(), 0);
    }
    EXPECT_EQ(batch.weights.size(), 0);
  }

  std::shared_ptr<cuda::Stream> stream_;
  std::shared_ptr<std::pmr::memory_resource> memory_;
};
EMBLEM_TEST_ON_EVERY_DEVICE(BatchStreams);

TEST_P(BatchStreams, GiveTheBatchesInOrder) {
  Numbered source(memory_.get(), 10);
  BatchStream batches = over(source);
  for (int number = 0; number < 10; ++number) {
    ASSERT_TRUE(batches.next());
    EXPECT_EQ(batches.host().labels.front(), static_cast<float>(number));
    expect_number(batches.batch(), number);
  }
  EXPECT_FALSE(batches.next());
}

TEST_P(BatchStreams, LookOneAheadOnAGpu) {
  Numbered source(memory_.get(), 10);
  BatchStream batches = over(source);
  for (int number = 0; number < 10; ++number) {
    ASSERT_TRUE(batches.next());
    const ModelBatch* ahead = batches.look_ahead();
    EXPECT_EQ(batches.look_ahead(), ahead) << "the second time it changes nothing";
    EXPECT_EQ(ahead != nullptr, GetParam() == Device::kCuda && number < 9);
    if (ahead != nullptr) expect_number(*ahead, number + 1);
    expect_number(batches.batch(), number);
    EXPECT_EQ(batches.host().labels.front(), static_cast<float>(number));
  }
  EXPECT_FALSE(batches.next());
  EXPECT_EQ(source.given(), 10);
}

TEST_P(BatchStreams, ABadBatchIsAnErrorWhenItsTurnHasCome) {
  Numbered source(memory_.get(), 10);
  source.fail_at = 2;
  BatchStream batches = over(source);
  ASSERT_TRUE(batches.next());
  ASSERT_TRUE(batches.next());
  EXPECT_EQ(batches.look_ahead(), nullptr);
  expect_number(batches.batch(), 1);
  EXPECT_THAT([&] { batches.next(); }, ThrowsMessage<Error>(testing::HasSubstr("row 7 is bad")));
}

}  // namespace
}  // namespace emblem
