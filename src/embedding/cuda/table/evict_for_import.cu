#include "embedding/cuda/table/evict_for_import.h"

#include <algorithm>

#include "core/device/cuda_check.h"
#include "core/memory/buffer.h"
#include "embedding/cuda/table/evict_in_bins.cuh"
#include "embedding/cuda/table/occupancy.h"

namespace emblem::cuda {
namespace {

namespace cg = cooperative_groups;

constexpr int kEvictThreads = 256;

__device__ int64_t score_of(const ImportedKeys& imported, uint32_t i) {
  return imported.scores != nullptr ? imported.scores[i] : 0;
}

// Calls visit(i) for the imported keys of a bin.
template <class Visit>
__device__ void for_each_imported(const KeySpace& keys, const ImportedKeys& imported, uint32_t bin,
                                  const BlockGroup& group, Visit&& visit) {
  for (uint32_t i = group.thread_rank(); i < imported.count; i += group.num_threads())
    if (keys.bin_of(imported.keys[i]) == bin) visit(i);
}

// Rows that are overwritten count with their new scores.
__device__ void evict_of_bin(const KeySpace& keys, const ImportedKeys& imported, uint32_t bin,
                             uint32_t excess, const BlockGroup& group, SelectScratch* scratch) {
  for_each_imported(keys, imported, bin, group, [&](uint32_t i) {
    if (imported.rows[i] != kNoRow) keys.meta[imported.rows[i]].score = score_of(imported, i);
  });
  group.sync();
  const auto for_each = [&](auto&& visit) {
    for_each_evictable(keys, bin, kNoVersion, group,
                       [&](const RowMeta& meta, uint32_t) { visit(meta.score, meta.key); });
    for_each_imported(keys, imported, bin, group, [&](uint32_t i) {
      if (imported.rows[i] == kNoRow) visit(score_of(imported, i), imported.keys[i]);
    });
  };
  count_candidates(for_each, scratch, group);
  const Rank last = kth_lowest(for_each, excess, scratch, group);
  evict_up_to(last, keys, bin, kNoVersion, group);
  if (group.thread_rank() == 0) keys.counters[bin].wanted = 0;
  group.sync();
  for_each_imported(keys, imported, bin, group, [&](uint32_t i) {
    const int64_t key = imported.keys[i];
    const bool is_low = rank_of(score_of(imported, i), key).at_most(last);
    if (is_low) {
      imported.rows[i] = kNoRow;
      imported.tickets[i] = kNotImported;
    } else if (imported.rows[i] == kNoRow) {
      imported.tickets[i] = keys.take_ticket(key);
    }
  });
}

__global__ void __launch_bounds__(kEvictThreads)
    evict_for_import_kernel(KeySpace keys, int64_t limit, ImportedKeys imported,
                            SelectScratch* select) {
  __shared__ FullBins full;
  const auto excess = [&](uint32_t bin) {
    return static_cast<int64_t>(keys.counters[bin].size) + keys.counters[bin].wanted - limit;
  };
  for_each_full_bin(
      keys.bin_count(), [&](uint32_t bin) { return excess(bin) > 0; }, &full, select,
      cg::this_grid(),
      [&](uint32_t bin, const BlockGroup& group, SelectScratch* scratch) {
        evict_of_bin(keys, imported, bin, static_cast<uint32_t>(excess(bin)), group, scratch);
      });
}

__global__ void __launch_bounds__(kEvictThreads)
    prune_waiting_kernel(KeySpace waiting, int64_t most, SelectScratch* select) {
  __shared__ FullBins full;
  prune_waiting(waiting, most, select, &full, cg::this_grid());
}

template <class... Parameters, class... Arguments>
void launch(const Context& context, void (*kernel)(Parameters...), Arguments... given) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  void* arguments[] = {&given...};
  const int blocks = std::max(1, resident_blocks(function, kEvictThreads));
  cuda_check(
      cudaLaunchCooperativeKernel(function, blocks, kEvictThreads, arguments, 0, context.stream),
      "launching a kernel that evicts imported rows");
}

Buffer<SelectScratch> scratch_of(const Context& context, const KeySpace& keys) {
  Buffer<SelectScratch> scratch(Device::kCuda, keys.bins.count);
  cuda_check(
      cudaMemsetAsync(scratch.data(), 0, scratch.size() * sizeof(SelectScratch), context.stream),
      "zeroing");
  return scratch;
}

}  // namespace

void evict_for_import(const Context& context, const KeySpace& keys, int64_t limit,
                      const ImportedKeys& imported) {
  Buffer<SelectScratch> scratch = scratch_of(context, keys);
  launch(context, evict_for_import_kernel, keys, limit, imported, scratch.data());
  context.synchronize();  // before the scratch is freed
}

void prune_imported(const Context& context, const KeySpace& waiting, int64_t most) {
  Buffer<SelectScratch> scratch = scratch_of(context, waiting);
  launch(context, prune_waiting_kernel, waiting, most, scratch.data());
  context.synchronize();
}

}  // namespace emblem::cuda
