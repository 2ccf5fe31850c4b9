// embedding/cuda/table/insert_scratch.cuh - scratch memory of insert_missing; owned by a lookup.
#pragma once

#include "embedding/cuda/table/select_lowest.cuh"

namespace emblem::cuda {

struct InsertScratch {
  // A hash map from the missing keys of a batch to their leaders: pass << 32 | number. Entries of
  // earlier passes count as empty, so it is never cleared.
  unsigned long long* map = nullptr;
  uint32_t map_mask = 0;
  uint32_t* leaders = nullptr;      // [missing] number of the occurrence that represents the key
  uint32_t* occurrences = nullptr;  // [missing] of the key, at its leader
  uint32_t* tickets = nullptr;      // [missing] index among the new keys of the table, then the row
  int64_t* before = nullptr;        // [missing] occurrences before this batch, at the leader
  uint32_t* wait_tickets = nullptr;  // [missing] index among the newly waiting keys
  SelectScratch* select = nullptr;   // [bins] of the table that has most
  bool in_pages = false;             // waiting keys of a table are (KeySpace::pages)
};

}  // namespace emblem::cuda
