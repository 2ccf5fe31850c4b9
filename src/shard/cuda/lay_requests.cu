#include "shard/cuda/lay_requests.h"

#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "embedding/row_share.h"

namespace emblem::cuda {
namespace {

constexpr int kLayThreads = 256;

// The item of request `i`.
__device__ const RequestedItem& item_of(const LayRequests& requests, uint32_t i) {
  int low = 0, high = requests.item_count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (requests.items[middle].first <= i)
      low = middle;
    else
      high = middle - 1;
  }
  return requests.items[low];
}

__global__ void __launch_bounds__(kLayThreads)
    lay_by_table_kernel(LayRequests requests, const int64_t* keys, const int32_t* counts,
                        int64_t* local_keys, int64_t* places, int32_t* local_counts) {
  const uint32_t i = blockIdx.x * kLayThreads + threadIdx.x;
  if (i >= requests.total) return;
  const RequestedItem& item = item_of(requests, i);
  const HeldRef& table = requests.tables[item.table];
  const uint32_t number = i - item.first, local = item.local + number;
  const int64_t key = keys[item.place.keys + number];
  const bool in_part = table.is_static && !(table.held.first == 0 && table.held.last == kParts);
  local_keys[local] = in_part ? local_row(key, table.held) : key;
  places[local] = item.rows + int64_t{number} * table.dim;
  if (counts != nullptr)
    local_counts[local] = table.sends_counts ? counts[item.place.counts + number] : 1;
}

__global__ void __launch_bounds__(kLayThreads)
    lay_flags_kernel(LayRequests requests, const uint8_t* absent, uint8_t* flags) {
  const uint32_t i = blockIdx.x * kLayThreads + threadIdx.x;
  if (i >= requests.total) return;
  const RequestedItem& item = item_of(requests, i);
  if (!requests.tables[item.table].can_miss || !item.is_answered) return;
  const uint32_t number = i - item.first;
  flags[item.flags + number] = absent[item.local + number];
}

}  // namespace

void lay_by_table(const Context& context, const LayRequests& requests, const int64_t* keys,
                  const int32_t* counts, int64_t* local_keys, int64_t* places,
                  int32_t* local_counts) {
  if (requests.total == 0) return;
  lay_by_table_kernel<<<blocks_of(requests.total, kLayThreads), kLayThreads, 0, context.stream>>>(
      requests, keys, counts, local_keys, places, local_counts);
  cuda_check(cudaGetLastError(), "launching lay_by_table_kernel");
}

void lay_flags(const Context& context, const LayRequests& requests, const uint8_t* absent,
               uint8_t* flags) {
  if (requests.total == 0) return;
  lay_flags_kernel<<<blocks_of(requests.total, kLayThreads), kLayThreads, 0, context.stream>>>(
      requests, absent, flags);
  cuda_check(cudaGetLastError(), "launching lay_flags_kernel");
}

}  // namespace emblem::cuda
