// embedding/cuda/lookup/find_gather.h - keys in, rows out: the kernels of a forward pass. All
// asynchronous.
#pragma once

#include "core/device/context.h"
#include "core/math/half.h"
#include "embedding/cuda/table/row_shape.h"

namespace emblem::cuda {

struct BatchRef;

// kEvalCached: some tables have caches; rows that are not cached are added to batch.uncached, to be
// fetched. kCopy: in training, after find_and_mark.
enum class GatherMode { kEval, kEvalCached, kTrain, kCopy };
constexpr bool is_eval(GatherMode mode) {
  return mode == GatherMode::kEval || mode == GatherMode::kEvalCached;
}

// For the features of a class with one key per bag and without weights: finds the rows and copies
// them to the output. A key without a row reads as its table's `missing`, or in training as the row
// that it is about to get. Training also marks the rows and lists the missing keys.
void gather_rows(const Context& context, const BatchRef& batch, int cls, RowShape shape,
                 DType dtype, GatherMode mode);
// The same for long rows of 32-bit floats in fours (shapes kUpTo128 and kUpTo1024), to outputs of
// 32 bits. Needs compute capability 9.0.
void gather_bulk(const Context& context, const BatchRef& batch, int cls, RowShape shape,
                 GatherMode mode);

// Before gather_rows with GatherMode::kCopy and pool_bags: batch.rows and marks of all features of
// a class.
void find_and_mark(const Context& context, const BatchRef& batch, int cls);

// For features with bags, where find_and_mark has not done it: finds batch.rows, with marks in
// training. With kEvalCached these are locations for batch.uncached.row_at.
void find_rows(const Context& context, const BatchRef& batch, GatherMode mode);
// Then, with kEvalCached after fetch_uncached_rows: sums or means of bags.
void pool_bags(const Context& context, const BatchRef& batch, GatherMode mode);

}  // namespace emblem::cuda
