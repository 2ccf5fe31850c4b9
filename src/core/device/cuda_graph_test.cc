#include "core/device/cuda_graph.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/device/device_test.h"
#include "core/device/stream.h"
#include "core/memory/buffer.h"
#include "core/memory/pinned.h"

namespace emblem {
namespace {

// What other threads do to the GPU meanwhile does not spoil captures.
TEST(CudaGraph, IsCapturedWhileOthersAllocateAndWait) {
  if (!device_is_usable(Device::kCuda)) GTEST_SKIP() << "no CUDA device here";
  dispatch(
      Device::kCuda, [] {},
      [] {
        std::atomic<bool> stop{false};
        std::thread other([&] {
          Context context{.device = Device::kCuda};
          const auto stream = use_own_stream(context);
          while (!stop) {
            const auto buffer = Buffer<float>::zeros(context, 1 << 20);
            const cuda::PinnedMemory pinned(1 << 16);
            context.synchronize();
          }
        });
        Context context{.device = Device::kCuda};
        const auto stream = use_own_stream(context);
        const auto from = Buffer<float>::from(context, std::vector<float>(100, 3.0f));
        for (int i = 0; i < 200; ++i) {
          Buffer<float> to = Buffer<float>::zeros(context, 100);
          const cuda::CudaGraph graph(context, [&] {
            for (int k = 0; k < 20; ++k)
              cuda::copy_async(context, to.data(), from.data(), 100 * sizeof(float));
          });
          graph.launch(context);
          ASSERT_EQ(to.to_host(context), std::vector<float>(100, 3.0f)) << i;
        }
        stop = true;
        other.join();
      });
}

}  // namespace
}  // namespace emblem
