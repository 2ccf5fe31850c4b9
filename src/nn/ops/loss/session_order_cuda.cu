#include <cub/device/device_radix_sort.cuh>

#include "nn/ops/launch.cuh"
#include "nn/ops/loss/session_order.h"

namespace emblem {
namespace {

size_t sort_bytes(int64_t rows) {
  size_t bytes = 0;
  cuda_check(cub::DeviceRadixSort::SortPairs(
                 nullptr, bytes, static_cast<const int64_t*>(nullptr),
                 static_cast<int64_t*>(nullptr), static_cast<const int32_t*>(nullptr),
                 static_cast<int32_t*>(nullptr), static_cast<int>(rows)),
             "planning a sort of sessions");
  return bytes;
}

__global__ void __launch_bounds__(cuda::kThreads) number_rows_kernel(int64_t rows, int32_t* to) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (r < rows) to[r] = static_cast<int32_t>(r);
}

}  // namespace

void SessionOrder::prepare(int64_t max_rows) {
  order_ = Buffer<int32_t>(Device::kCuda, max_rows);
  numbers_ = Buffer<int32_t>(Device::kCuda, max_rows);
  sorted_ = Buffer<int64_t>(Device::kCuda, max_rows);
  memory_ = Buffer<char>(Device::kCuda, static_cast<int64_t>(sort_bytes(max_rows)));
}

void SessionOrder::sort(const OpContext& pass, const int64_t* sessions) {
  if (pass.rows == 0) return;
  const cudaStream_t stream = pass.context.stream;
  number_rows_kernel<<<cuda::blocks_of(pass.rows, cuda::kThreads), cuda::kThreads, 0, stream>>>(
      pass.rows, numbers_.data());
  cuda::check_launch("launching the numbers of rows");
  size_t bytes = static_cast<size_t>(memory_.size());
  cuda_check(cub::DeviceRadixSort::SortPairs(memory_.data(), bytes, sessions, sorted_.data(),
                                             numbers_.data(), order_.data(),
                                             static_cast<int>(pass.rows), 0, 64, stream),
             "sorting sessions");
}

}  // namespace emblem
