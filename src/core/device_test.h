// core/device_test.h - runs one test body on every device this machine has.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "core/buffer.h"
#include "core/thread_pool.h"

namespace emblem {

class DeviceTest : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    context_.device = GetParam();
    context_.threads = pool_.get();
    if (GetParam() == Device::kCpu || cuda_is_usable()) return;
    // On the GPU machine a skip would be a lie, so there it is a failure.
    if (std::getenv("EMBLEM_REQUIRE_CUDA"))
      FAIL() << "EMBLEM_REQUIRE_CUDA is set, but no CUDA device";
    GTEST_SKIP() << "no CUDA device here";
  }
  static bool cuda_is_usable() {
    if (!kHasCuda) return false;
    try {
      Buffer<char> probe(Device::kCuda, 1);
      return true;
    } catch (const Error&) {
      return false;
    }
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
