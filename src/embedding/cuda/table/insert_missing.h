// embedding/cuda/table/insert_missing.h - gives rows to the keys of a training batch that have
// none.
#pragma once

#include "core/device/context.h"

namespace emblem::cuda {

struct BatchRef;
struct InsertScratch;

// Runs after existing rows were marked. Counts and admits unknown keys, evicts others where a
// table is full, inserts and initializes, and marks the new rows. One kernel, which returns at
// once when no key is missing. Asynchronous.
void insert_missing(const Context& context, const BatchRef& batch, const InsertScratch& scratch);

}  // namespace emblem::cuda
