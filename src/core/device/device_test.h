// core/device/device_test.h - runs one test body on every device this machine has.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "core/device/stream.h"
#include "core/memory/buffer.h"
#include "core/memory/host_copy.h"
#include "core/threads/thread_pool.h"

namespace emblem {

// Whether the device can be used here. Where EMBLEM_REQUIRE_CUDA is set a skip would be a lie, so
// there a missing GPU is a failure.
inline bool device_is_usable(Device device) {
  if (device == Device::kCpu) return true;
  if (kHasCuda) {
    try {
      Buffer<char> probe(Device::kCuda, 1);
      return true;
    } catch (const Error&) {
    }
  }
  EXPECT_EQ(std::getenv("EMBLEM_REQUIRE_CUDA"), nullptr) << "no CUDA device here";
  return false;
}

// Makes the context compute on a stream of its own, as the program does; none on a CPU.
inline std::shared_ptr<cuda::Stream> use_own_stream(Context& context) {
  return dispatch(
      context.device, [] { return std::shared_ptr<cuda::Stream>(); },
      [&] {
        auto stream = std::make_shared<cuda::Stream>();
        context.stream = stream->get();
        return stream;
      });
}

class DeviceTest : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    context_.device = GetParam();
    context_.threads = pool_.get();
    if (!device_is_usable(GetParam())) GTEST_SKIP() << "no CUDA device here";
  }
  Context context_;
  std::unique_ptr<ThreadPool> pool_ = std::make_unique<ThreadPool>(2);
};

inline std::string device_name(const testing::TestParamInfo<Device>& info) {
  return cat(info.param);
}

#define EMBLEM_TEST_ON_EVERY_DEVICE(Suite) \
  INSTANTIATE_TEST_SUITE_P(, Suite, testing::Values(Device::kCpu, Device::kCuda), device_name)

}  // namespace emblem
