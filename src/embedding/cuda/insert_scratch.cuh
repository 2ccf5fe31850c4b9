// embedding/cuda/insert_scratch.cuh - what insert_missing works with; made and kept by a lookup.
#pragma once

#include "embedding/cuda/select_lowest.cuh"

namespace emblem::cuda {

struct InsertScratch {
  // A hash map from the missing keys of a batch to the first of their occurrences found: pass << 32
  // | number. Entries of earlier passes are as good as empty, so it is never cleared.
  unsigned long long* map = nullptr;
  uint32_t map_mask = 0;
  uint32_t* leaders = nullptr;      // [missing] number of the occurrence that stands for the key
  uint32_t* occurrences = nullptr;  // [missing] of the key, at its leader
  uint32_t* tickets = nullptr;      // [missing] place among the new keys of the table, then the row
  int64_t* before = nullptr;        // [missing] occurrences before this batch, at the leader
  uint32_t* wait_tickets = nullptr;  // [missing] place among the newly waiting keys
  SelectScratch* select = nullptr;
};

}  // namespace emblem::cuda
