#include "bench/machine/gpu_timer.h"

#include <algorithm>

#include "core/device/cuda_check.h"
#include "core/device/cuda_graph.h"
#include "core/math/random.h"
#include "core/memory/buffer.h"
#include "kernels/matmul_cuda.h"

namespace emblem::cuda {
namespace {

class Event {
 public:
  Event() { cuda_check(cudaEventCreate(&event_), "creating an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(const Context& context) {
    cuda_check(cudaEventRecord(event_, context.stream), "recording an event");
  }
  double seconds_since(const Event& start) {
    float milliseconds = 0;
    cuda_check(cudaEventSynchronize(event_), "waiting for an event");
    cuda_check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "reading events");
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// The shortest of ten.
template <class Body>
double best_seconds(const Context& context, Body&& body) {
  double best = 1e30;
  Event start, end;
  for (int i = 0; i < 10; ++i) {
    start.record(context);
    body();
    end.record(context);
    best = std::min(best, end.seconds_since(start));
  }
  return best;
}

}  // namespace

std::vector<double> time_replays(const Context& context, int warm_ups, int repetitions,
                                 const std::function<void()>& body) {
  const CudaGraph graph(context, body);
  for (int i = 0; i < warm_ups; ++i) graph.launch(context);
  std::vector<double> seconds;
  Event start, end;
  for (int i = 0; i < repetitions; ++i) {
    start.record(context);
    graph.launch(context);
    end.record(context);
    seconds.push_back(end.seconds_since(start));
  }
  return seconds;
}

double measure_device_copy(const Context& context, int64_t bytes) {
  Buffer<char> from(Device::kCuda, bytes), to(Device::kCuda, bytes);
  cuda_check(cudaMemsetAsync(from.data(), 0x5a, bytes, context.stream), "filling memory");
  const double seconds = best_seconds(context, [&] {
    cuda_check(
        cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, context.stream),
        "copying memory");
  });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

double measure_host_to_device(const Context& context, int64_t bytes) {
  Buffer<char> to(Device::kCuda, bytes);
  void* from = nullptr;
  cuda_check(cudaHostAlloc(&from, bytes, cudaHostAllocDefault), "allocating pinned memory");
  const double seconds = best_seconds(context, [&] {
    cuda_check(cudaMemcpyAsync(to.data(), from, bytes, cudaMemcpyHostToDevice, context.stream),
               "copying memory");
  });
  cudaFreeHost(from);
  return static_cast<double>(bytes) / seconds;
}

double measure_device_gemm(const Context& context, DType type, int64_t size) {
  const MatmulLibrary library;
  // Random values as in a model: zeros would use less power and run at higher clock rates.
  std::vector<uint32_t> bits(static_cast<size_t>(size * size * size_of(type) / 4));
  for (size_t i = 0; i < bits.size(); ++i) {
    const auto random = static_cast<uint32_t>(random_bits(1, 0, i));
    bits[i] = type == DType::kF32 ? (random & 0x807fffffu) | 0x3f000000u   // +-[0.5, 1)
                                  : (random & 0x807f807fu) | 0x3f003f00u;  // the same in bf16
  }
  const auto a = Buffer<uint32_t>::from(context, bits), b = Buffer<uint32_t>::from(context, bits);
  Buffer<char> c(Device::kCuda, size * size * size_of(type));
  const auto product = Matmul::plan(library, {.m = size,
                                              .n = size,
                                              .k = size,
                                              .a = a.data(),
                                              .b = b.data(),
                                              .c = c.data(),
                                              .input_type = type,
                                              .output_type = type});
  const double seconds = best_seconds(context, [&] { product->run(context); });
  const auto n = static_cast<double>(size);
  return 2 * n * n * n / seconds;
}

}  // namespace emblem::cuda
