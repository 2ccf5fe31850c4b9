// serve/engine/retrieval/item_changes.h - what a request changes of the items of an index.
//
//   ids INT64 [items]
// and, of items that are put:
//   vectors FP32 [items, dim]
//   attributes BYTES [items]: names of the attributes that an item has, "in_stock,new"; optional:
//     none has any
//   BYTES [items] for each column that is stored with the items of the index
#pragma once

#include <cstdint>
#include <vector>

#include "retrieval/index.h"
#include "serve/engine/retrieval/stored_columns.h"
#include "serve/protocol/inference_service.h"
#include "serve/protocol/memory_budget.h"

namespace emblem {

// Makes all changes of the request in one step, or none, and returns their number. What is
// allocated is taken from `memory` before. Called by one thread at a time. Throws kInvalidArgument
// for inputs that do not fit the index, kNotFound for items to remove that are not there.
int64_t change_items(const Context& context, Index& index, StoredColumns& columns,
                     const InferRequest& request, ItemChange change, MemoryBudget::Lease& memory);

}  // namespace emblem
