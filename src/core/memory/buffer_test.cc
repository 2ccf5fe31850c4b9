#include "core/memory/buffer.h"

#include <gmock/gmock.h>

#include "core/device/device_test.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class BufferTest : public DeviceTest {};
EMBLEM_TEST_ON_EVERY_DEVICE(BufferTest);

TEST_P(BufferTest, ReturnsWhatWasCopiedIn) {
  const auto buffer = Buffer<float>::from(context_, {1, 2, 3, 4, 5, 6}, 3);
  EXPECT_THAT(buffer.to_host(context_), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(buffer.view().rows, 2);
  EXPECT_EQ(buffer.view().cols, 3);
  EXPECT_EQ(buffer.view().device, GetParam());
  EXPECT_EQ(buffer.view().row(1) - buffer.data(), 3);
}

TEST_P(BufferTest, IsAlignedForTheWidestVectors) {
  for (const int64_t rows : {1, 3, 1000}) {
    Buffer<char> buffer(GetParam(), rows);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  }
}

TEST_P(BufferTest, MovesWithoutCopying) {
  auto first = Buffer<int>::from(context_, {7, 8});
  const int* data = first.data();
  Buffer<int> second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_THAT(second.to_host(context_), ElementsAre(7, 8));
}

TEST_P(BufferTest, MayBeEmpty) {
  const auto buffer = Buffer<int>::from(context_, {});
  EXPECT_EQ(buffer.size(), 0);
  EXPECT_TRUE(buffer.to_host(context_).empty());
}

TEST(Dispatch, CallsTheBranchOfTheDevice) {
  EXPECT_EQ(dispatch(
                Device::kCpu, [] { return 1; }, [] { return 2; }),
            1);
  if constexpr (kHasCuda) {
    EXPECT_EQ(dispatch(
                  Device::kCuda, [] { return 1; }, [] { return 2; }),
              2);
  } else {
    try {
      dispatch(
          Device::kCuda, [] { return 1; }, [] { return 2; });
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("built without CUDA"));
    }
  }
}

TEST(Device, HasAName) {
  EXPECT_EQ(cat(Device::kCpu), "cpu");
  EXPECT_EQ(cat(Device::kCuda), "cuda");
}

}  // namespace
}  // namespace emblem
