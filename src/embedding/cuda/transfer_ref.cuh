// embedding/cuda/transfer_ref.cuh - the host_transfer as kernels see it: the other half of
// embedding/transfer/host_transfer.h.
#pragma once

#include <cuda/atomic>

#include "embedding/cuda/device_table_ref.cuh"
#include "embedding/transfer/staging_buffer_ref.h"

namespace emblem::cuda {

// Shared with the host, and with other warps.
template <class T>
using SystemWord = ::cuda::atomic_ref<T, ::cuda::thread_scope_system>;
template <class T>
using DeviceWord = ::cuda::atomic_ref<T, ::cuda::thread_scope_device>;

namespace detail {

// By one thread: waits until the host has counted up to `number`, and notes how far it is for
// the others.
__device__ inline void watch(uint64_t* host, TransferCount* count, unsigned long long number) {
  const DeviceWord<unsigned long long> noted(count->seen);
  unsigned long long seen = noted.load(::cuda::memory_order_acquire);
  while (seen < number) {
    const unsigned long long now = SystemWord<uint64_t>(*host).load(::cuda::memory_order_acquire);
    if (now != seen)
      noted.store(seen = now, ::cuda::memory_order_release);
    else
      __nanosleep(100);
  }
}

// What the request is about has been written before, by this thread or by others that had a fence
// of the system behind it and were seen by this one since.
__device__ inline void publish(const StagingBufferRef& staging, unsigned long long number,
                               TransferRequest::Kind kind, uint32_t begin, uint32_t end,
                               int64_t stride, uint64_t* scattered) {
  TransferRequest& request = staging.memory.queue->requests[number % kMostRequests];
  request.kind = kind;
  request.begin = begin;
  request.end = end;
  request.stride = static_cast<uint32_t>(stride);
  request.scattered = scattered;
  __threadfence_system();
  SystemWord<uint64_t>(request.number).store(number + 1, ::cuda::memory_order_relaxed);
}

}  // namespace detail

// Whether `rows` rows are moved by the host_transfer.
__device__ inline bool uses_transfer(const StagingBufferRef& staging, uint32_t rows) {
  return staging.state != nullptr && rows >= staging.least_rows;
}

// The first so many of them come with the host_transfer.
__device__ inline uint32_t transferred_rows(const StagingBufferRef& staging, uint32_t rows) {
  return rows - static_cast<uint32_t>(static_cast<uint64_t>(rows) * staging.direct / 16);
}

__device__ inline uint32_t pieces_of(const StagingBufferRef& staging, uint32_t rows) {
  return (rows + staging.piece_rows - 1) / staging.piece_rows;
}

// The number that the next request will have: to be read while nobody asks.
__device__ inline unsigned long long next_request(const StagingBufferRef& staging) {
  return DeviceWord<unsigned long long>(staging.state->requests.asked)
      .load(::cuda::memory_order_relaxed);
}

// Wakes the host_transfer up, while the kernel still finds out what it needs. One thread.
__device__ inline void wake_host(const StagingBufferRef& staging) {
  const unsigned long long number = atomicAdd(&staging.state->requests.asked, 1ull);
  detail::publish(staging, number, TransferRequest::Kind::kCall, 0, 0, 0, nullptr);
}

// Asks for the first `rows` rows listed in in_from, in requests from `first` on. One warp, after
// each thread that wrote to the list had a fence of the system, and the grid a barrier.
__device__ inline void ask_for_rows(const StagingBufferRef& staging, unsigned long long first,
                                    uint32_t rows, int64_t stride) {
  const uint32_t pieces = pieces_of(staging, rows);
  for (uint32_t piece = threadIdx.x % 32; piece < pieces; piece += 32) {
    const uint32_t begin = piece * staging.piece_rows;
    detail::publish(staging, first + piece, TransferRequest::Kind::kGather, begin,
                    min(rows, begin + staging.piece_rows), stride, nullptr);
  }
  if (threadIdx.x % 32 == 0)
    DeviceWord<unsigned long long>(staging.state->requests.asked)
        .store(first + pieces, ::cuda::memory_order_relaxed);
}

// Follows the host_transfer until it has served all requests before `number`, for the warps that
// wait. The only warp of the grid that looks at host memory for it.
__device__ inline void watch_host(const StagingBufferRef& staging, unsigned long long number) {
  if (threadIdx.x % 32 == 0)
    detail::watch(&staging.memory.queue->done, &staging.state->requests, number);
  __syncwarp();
}

// Until the watching warp has seen all requests before `number` served. Whole warp.
__device__ inline void wait_for_host(const StagingBufferRef& staging, unsigned long long number) {
  if (threadIdx.x % 32 == 0) {
    const DeviceWord<unsigned long long> seen(staging.state->requests.seen);
    while (seen.load(::cuda::memory_order_acquire) < number) __nanosleep(200);
  }
  __syncwarp();
}

// A row out of `in`. Whole warp. The buffer is used again and again: no cache may answer.
__device__ inline void copy_from_staging(char* to, const char* from, int64_t bytes) {
  for (int64_t at = threadIdx.x % 32 * 16; at < bytes; at += 512) {
    const uint4 part = __ldcv(reinterpret_cast<const uint4*>(from + at));
    __stcs(reinterpret_cast<uint4*>(to + at), part);
  }
}

// The warp has written rows [first, first + written) of `rows` to `out` and out_to, all of one
// piece. Whoever writes the last row of a piece asks for it to be scattered.
__device__ inline void send_to_host(const StagingBufferRef& staging, const DeviceTableRef& table,
                                    uint32_t first, uint32_t written, uint32_t rows) {
  __threadfence_system();
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
  const uint32_t piece = first / staging.piece_rows, begin = piece * staging.piece_rows;
  const uint32_t end = min(rows, begin + staging.piece_rows);
  if (atomicAdd(&staging.state->written[piece], written) + written != end - begin) return;
  staging.state->written[piece] = 0;
  atomicAdd(&table.scatters->asked, 1ull);
  const unsigned long long number = atomicAdd(&staging.state->requests.asked, 1ull);
  detail::publish(staging, number, TransferRequest::Kind::kScatter, begin, end, table.stride,
                  table.scattered);
}

// Until no row of the table is on its way to host memory. One thread; a barrier of the grid behind
// it lets the others read and write the table's rows there, or have them gathered.
__device__ inline void wait_for_scatters(const DeviceTableRef& table) {
  if (table.scatters == nullptr) return;
  const unsigned long long asked =
      DeviceWord<unsigned long long>(table.scatters->asked).load(::cuda::memory_order_relaxed);
  detail::watch(table.scattered, table.scatters, asked);
}

}  // namespace emblem::cuda
