// Rows of 32-bit floats, copied by the hardware: a lane a row, no registers between.
#include <algorithm>

#include "core/cuda_check.h"
#include "embedding/bulk_copy.cuh"
#include "embedding/device_batch.cuh"
#include "embedding/find_gather.h"
#include "embedding/occupancy.h"

namespace emblem::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kStages = 2;
constexpr int kStageBytes = 8192;  // of a warp

__device__ void prefetch_line(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// Warps stay and take kKeys keys at a time. While their rows come, those before leave, and the
// buckets of those after are on their way to the cache.
template <int kKeys, Pass kPass>
__global__ void __launch_bounds__(kThreads)
    gather_bulk_kernel(const __grid_constant__ BatchRef batch, int cls) {
  extern __shared__ __align__(128) char ring[];
  __shared__ BulkBarrier barriers[kWarps][kStages];
  constexpr int kSlotBytes = kStageBytes / kKeys;
  constexpr uint32_t kSteps = kTile / kKeys;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  char* slots = ring + warp * kStages * kStageBytes + lane % kKeys * kSlotBytes;
  if (lane == 0) {
    for (BulkBarrier& barrier : barriers[warp]) barrier.init();
  }
  __syncwarp();

  const uint32_t end = batch.class_tile[cls + 1] * kSteps, stride = gridDim.x * kWarps;
  uint32_t step = batch.class_tile[cls] * kSteps + blockIdx.x * kWarps + warp;
  float* waiting = nullptr;  // where the row of the previous step goes
  uint32_t waiting_bytes = 0;
  uint32_t round = 0;
  // Sends the rows of the previous round on their way out.
  const auto send = [&] {
    const uint32_t before = round - 1;
    barriers[warp][before % kStages].wait(before / kStages & 1);
    if (waiting != nullptr) bulk_store(waiting, slots + before % kStages * kStageBytes, waiting_bytes);
    bulk_commit();
  };
  for (; step < end; step += stride) {
    const FeatureRef& feature = batch.feature_of_tile(step / kSteps);
    if (feature.offsets != nullptr || feature.weights != nullptr) continue;  // pool_bags does it
    const DeviceTableRef& table = batch.tables[feature.table];
    const uint32_t base = (step - feature.first_tile * kSteps) * kKeys, place = base + lane;
    const bool there = lane < kKeys && place < feature.count;
    int64_t key = 0;
    uint32_t row = kNoRow;
    if (kPass == Pass::kTrain) {
      if (there) row = __ldcs(batch.rows + feature.first + place);
    } else {
      if (there) key = __ldcs(feature.keys + place);
      const uint32_t ahead = place + stride * kKeys;  // mostly of the same feature
      if (lane < kKeys && ahead < feature.count && !table.is_static())
        prefetch_line(table.keys.buckets + table.keys.home(__ldg(feature.keys + ahead)));
      if (there) row = table.find(key);
    }
    float* out = batch.out + (base + lane % kKeys) * batch.width + feature.column;
    const uint32_t bytes = table.dim * 4;
    const uint32_t stage = round % kStages;
    if (round >= kStages) bulk_wait_read<kStages - 1>();  // the stage's last rows have left
    const uint32_t present = __ballot_sync(~0u, row != kNoRow);
    if (lane == 0) barriers[warp][stage].announce(__popc(present) * bytes);
    __syncwarp();
    if (row != kNoRow)
      bulk_load(slots + stage * kStageBytes, table.row(row), bytes, barriers[warp][stage]);
    if (round > 0) send();
    waiting = row != kNoRow ? out : nullptr;
    waiting_bytes = bytes;
    ++round;
    for (uint32_t absent = __ballot_sync(~0u, there && row == kNoRow); absent != 0;
         absent &= absent - 1) {
      const int source = __ffs(absent) - 1;
      const int64_t of = feature.keys[base + source];
      const Initializer& draw = kPass == Pass::kTrain ? table.initializer : table.missing;
      for (int d = lane; d < table.dim; d += 32)
        batch.out[(base + source) * batch.width + feature.column + d] =
            draw(table.seed, static_cast<uint64_t>(of), d);
    }
  }
  if (round > 0) send();
  bulk_wait_all();
}

}  // namespace

void gather_bulk(const Context& context, const BatchRef& batch, int cls, RowShape shape, Pass pass) {
  const uint32_t tiles = batch.class_tile[cls + 1] - batch.class_tile[cls];
  if (tiles == 0) return;
  constexpr int kShared = kWarps * kStages * kStageBytes;
  const auto launch = [&](auto keys) {
    constexpr int kKeys = decltype(keys)::value;
    auto* kernel = pass == Pass::kTrain ? gather_bulk_kernel<kKeys, Pass::kTrain>
                                        : gather_bulk_kernel<kKeys, Pass::kEval>;
    cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
               "asking for shared memory");
    const uint32_t wanted = (tiles * (kTile / kKeys) + kWarps - 1) / kWarps;
    const int most = resident_blocks(reinterpret_cast<const void*>(kernel), kThreads, kShared);
    kernel<<<std::min<uint32_t>(wanted, most), kThreads, kShared, context.stream>>>(batch, cls);
  };
  if (shape == RowShape::kUpTo128)
    launch(std::integral_constant<int, 16>{});
  else
    launch(std::integral_constant<int, 2>{});
  cuda_check(cudaGetLastError(), "launching gather_bulk_kernel");
}

}  // namespace emblem::cuda
