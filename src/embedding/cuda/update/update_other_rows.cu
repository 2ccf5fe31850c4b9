#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "core/files/shared_memory.h"
#include "embedding/cuda/update/update_rows.cuh"

namespace emblem::cuda {
namespace {

// One row per group of lanes.
template <class S, class R>
__global__ void __launch_bounds__(kUpdateThreads)
    update_other_rows_kernel(const DeviceTableRef* of, Apply<S, R> apply) {
  const DeviceTableRef& table = *of;
  constexpr int kGroups = kUpdateThreads / S::kLanes;
  const int member = threadIdx.x % S::kLanes;
  const auto rows =
      table.is_static() ? static_cast<uint32_t>(table.capacity) : table.keys.rows_end();
  const auto version = static_cast<uint32_t>(table.clocks->version);
  extern __shared__ __align__(16) char dynamic[];
  Ring<S, R> ring(dynamic);
  const RowsOf rows_here = rows_of(table);
  // A replay may find more rows than there were at the capture.
  for (uint32_t row = blockIdx.x * kGroups + threadIdx.x / S::kLanes; row < rows;
       row += gridDim.x * kGroups) {
    if (static_cast<uint32_t>(*table.mark(row) >> 32) == version) continue;
    if (!table.is_static() && table.keys.meta[row].score == kUnusedScore) continue;
    char* at = rows_here.row_at(rows_here.locate(row));
    ring.fetch_row(0, rows_here, at, member);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    Share<S> nothing{};
    auto share = ring.row(0, rows_here, member);
    apply(rows_here, at, member, nothing, share);
  }
}

}  // namespace

void update_other_rows(const Context& context, const DeviceTableRef* table, int64_t rows,
                       const UpdateRows& op) {
  if (rows == 0) return;
  with_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    constexpr int kGroups = kUpdateThreads / S::kLanes;
    visit_table_rule(op.rule, [&](const auto& rule) {
      using R = std::decay_t<decltype(rule)>;
      constexpr int kShared = Ring<S, R>::kSlotBytes * kUpdateThreads;  // one stage
      allow_shared_memory(update_other_rows_kernel<S, R>);
      update_other_rows_kernel<S, R>
          <<<blocks_of(rows, kGroups), kUpdateThreads, kShared, context.stream>>>(
              table, Apply<S, R>{rule, op.scale, op.l2, op.rounding_draw, op.values});
    });
  });
  cuda_check(cudaGetLastError(), "launching update_other_rows_kernel");
}

}  // namespace emblem::cuda
