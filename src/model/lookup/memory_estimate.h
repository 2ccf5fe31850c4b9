// model/lookup/memory_estimate.h - how much memory a model will take in training, before it takes
// it.
#pragma once

#include <cstdint>
#include <span>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "core/device/context.h"
#include "embedding/settings.h"
#include "nn/graph.h"

namespace emblem {

struct TrainingBytes {
  int64_t fixed = 0;      // tables with optimizer state, as large as they start, and dense weights
  int64_t per_row = 0;    // bytes per row of a batch: values, gradients and the work of lookups
  int64_t batch_row = 0;  // bytes per row of each further batch that waits in memory

  int64_t of(int64_t rows, int64_t batches) const {
    return fixed + rows * (per_row + batches * batch_row);
  }
};

// Bytes in fp32, with `keys_per_feature` keys of each feature per row. Rather too much than too
// little: gradients are taken to have memory of their own, which they share in truth. `config`
// has passed check_pipeline. Allocates next to nothing.
TrainingBytes estimate_training_bytes(const config::PipelineConfig& config,
                                      const FeatureLayout& layout, double keys_per_feature = 1);

// Throws Error (kOutOfMemory) that names the largest of `tables` when those of them whose rows are
// all written when they are made need more than `room` bytes of host memory; 0: more than the
// machine has left. `others`: bytes that other ranks on this machine take at the same time. On a
// CPU these are static tables, whose rows may be in swap; on a GPU, tables
// with a cache over host memory, which is pinned.
void require_table_memory(const Context& context, std::span<const TableSettings> tables,
                          int64_t room = 0, int64_t others = 0);

// The bytes of host memory that require_table_memory counts.
int64_t host_bytes_of_tables(const Context& context, std::span<const TableSettings> tables);
// Bytes that the machine has left for them.
int64_t room_for_tables(const Context& context);

// Throws Error (kOutOfMemory) that names the largest part when the dense parameters of `graph`,
// with the values of a batch of `rows`, cannot fit into the memory of the machine. Does nothing on
// a GPU, where the allocator reports it.
void require_dense_memory(const Context& context, const Graph& graph, int64_t rows);

}  // namespace emblem
