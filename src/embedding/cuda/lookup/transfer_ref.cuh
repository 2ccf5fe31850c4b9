// embedding/cuda/lookup/transfer_ref.cuh - how kernels request transfers from host threads: the
// device side of embedding/transfer/host_transfer.h.
#pragma once

#include <cuda/atomic>

#include "embedding/cuda/table/device_table_ref.cuh"
#include "embedding/transfer/staging_buffer_ref.h"

namespace emblem::cuda {

// Shared with the host, and with other warps.
template <class T>
using SystemWord = ::cuda::atomic_ref<T, ::cuda::thread_scope_system>;
template <class T>
using DeviceWord = ::cuda::atomic_ref<T, ::cuda::thread_scope_device>;

namespace detail {

// One thread: polls the host's count until it is at least `number`, and stores it for other
// threads.
__device__ inline void poll(uint64_t* host, TransferCount* count, unsigned long long number) {
  const DeviceWord<unsigned long long> observed(count->observed);
  unsigned long long seen = observed.load(::cuda::memory_order_acquire);
  while (seen < number) {
    const unsigned long long now = SystemWord<uint64_t>(*host).load(::cuda::memory_order_acquire);
    if (now != seen)
      observed.store(seen = now, ::cuda::memory_order_release);
    else
      __nanosleep(100);
  }
}

// The data of the request has been written before, by this thread, or by others with a system-wide
// fence afterwards that this thread has synchronized with.
__device__ inline void publish(const StagingBufferRef& staging, unsigned long long number,
                               TransferRequest::Kind kind, uint32_t begin, uint32_t end,
                               int64_t stride, uint64_t* scattered) {
  TransferRequest& request = staging.memory.queue->requests[number % kMaxRequests];
  request.kind = kind;
  request.begin = begin;
  request.end = end;
  request.stride = static_cast<uint32_t>(stride);
  request.scattered = scattered;
  __threadfence_system();
  SystemWord<uint64_t>(request.number).store(number + 1, ::cuda::memory_order_relaxed);
}

}  // namespace detail

// Whether host threads help to move `rows` rows.
__device__ inline bool uses_transfer(const StagingBufferRef& staging, uint32_t rows) {
  return staging.state != nullptr && rows >= staging.min_rows;
}

// How many of `rows` rows, from the first on, come through the staging buffer.
__device__ inline uint32_t transferred_rows(const StagingBufferRef& staging, uint32_t rows) {
  return rows - static_cast<uint32_t>(static_cast<uint64_t>(rows) * staging.direct_rows / 16);
}

__device__ inline uint32_t pieces_of(const StagingBufferRef& staging, uint32_t rows) {
  return (rows + staging.piece_rows - 1) / staging.piece_rows;
}

// The number of the next request; to be read while no thread makes requests.
__device__ inline unsigned long long next_request(const StagingBufferRef& staging) {
  return DeviceWord<unsigned long long>(staging.state->requests.requested)
      .load(::cuda::memory_order_relaxed);
}

// Wakes the host threads while the kernel still determines which rows it needs. One thread.
__device__ inline void wake_host(const StagingBufferRef& staging) {
  const unsigned long long number = atomicAdd(&staging.state->requests.requested, 1ull);
  detail::publish(staging, number, TransferRequest::Kind::kWake, 0, 0, 0, nullptr);
}

// Requests the first `rows` rows of the list in_rows, with requests from `first` on. One warp,
// after a system-wide fence of each thread that wrote to the list and a grid barrier.
__device__ inline void request_rows(const StagingBufferRef& staging, unsigned long long first,
                                    uint32_t rows, int64_t stride) {
  const uint32_t pieces = pieces_of(staging, rows);
  for (uint32_t piece = threadIdx.x % 32; piece < pieces; piece += 32) {
    const uint32_t begin = piece * staging.piece_rows;
    detail::publish(staging, first + piece, TransferRequest::Kind::kGather, begin,
                    min(rows, begin + staging.piece_rows), stride, nullptr);
  }
  if (threadIdx.x % 32 == 0)
    DeviceWord<unsigned long long>(staging.state->requests.requested)
        .store(first + pieces, ::cuda::memory_order_relaxed);
}

// Polls until all requests before `number` are served, on behalf of the warps in wait_for_host.
// Only one warp of the grid polls host memory.
__device__ inline void poll_host(const StagingBufferRef& staging, unsigned long long number) {
  if (threadIdx.x % 32 == 0)
    detail::poll(&staging.memory.queue->done, &staging.state->requests, number);
  __syncwarp();
}

// Waits until the polling warp has seen all requests before `number` served. Whole warp.
__device__ inline void wait_for_host(const StagingBufferRef& staging, unsigned long long number) {
  if (threadIdx.x % 32 == 0) {
    const DeviceWord<unsigned long long> seen(staging.state->requests.observed);
    while (seen.load(::cuda::memory_order_acquire) < number) __nanosleep(200);
  }
  __syncwarp();
}

// Copies a row from `in`. Whole warp. The buffer is reused, so reads must not come from a cache.
__device__ inline void copy_from_staging(char* to, const char* from, int64_t bytes) {
  for (int64_t at = threadIdx.x % 32 * 16; at < bytes; at += 512) {
    const uint4 part = __ldcv(reinterpret_cast<const uint4*>(from + at));
    __stcs(reinterpret_cast<uint4*>(to + at), part);
  }
}

// The warp has written rows [first, first + written) of `rows` to `out` and out_rows, all of one
// piece. The warp that completes a piece requests its scatter.
__device__ inline void send_to_host(const StagingBufferRef& staging, const DeviceTableRef& table,
                                    uint32_t first, uint32_t written, uint32_t rows) {
  __threadfence_system();
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
  const uint32_t piece = first / staging.piece_rows, begin = piece * staging.piece_rows;
  const uint32_t end = min(rows, begin + staging.piece_rows);
  if (atomicAdd(&staging.state->written[piece], written) + written != end - begin) return;
  staging.state->written[piece] = 0;
  atomicAdd(&table.scatters->requested, 1ull);
  const unsigned long long number = atomicAdd(&staging.state->requests.requested, 1ull);
  detail::publish(staging, number, TransferRequest::Kind::kScatter, begin, end, table.stride,
                  table.scattered);
}

// Waits until no scatter of the table is pending. One thread; after a grid barrier other threads
// may read and write the table's rows in host memory, or request them.
__device__ inline void wait_for_write_backs(const DeviceTableRef& table) {
  if (table.scatters == nullptr) return;
  const unsigned long long requested =
      DeviceWord<unsigned long long>(table.scatters->requested).load(::cuda::memory_order_relaxed);
  detail::poll(table.scattered, table.scatters, requested);
}

}  // namespace emblem::cuda
