// embedding/find_gather.h - keys in, rows out: the kernels of a forward pass. All asynchronous.
#pragma once

#include "core/context.h"
#include "core/half.h"
#include "embedding/row_shape.h"

namespace emblem::cuda {

struct BatchRef;

enum class Pass { kEval, kTrain };

// Training: batch.rows of all keys; rows that are there are marked, keys without one listed.
void find_and_mark(const Context& context, const BatchRef& batch);
// Evaluation: batch.rows of the keys of features with bags.
void find_rows(const Context& context, const BatchRef& batch);

// For the features of a class with one key a bag and without weights: copies rows to the output,
// from batch.rows in training, from where it finds them itself in evaluation. A key without a row
// reads as its table's `missing`, or in training as the row that it is about to get.
void gather_rows(const Context& context, const BatchRef& batch, int cls, RowShape shape,
                 DType dtype, Pass pass);
// The same for long rows of 32-bit floats in fours (shapes kUpTo128 and kUpTo1024).
void gather_bulk(const Context& context, const BatchRef& batch, int cls, RowShape shape, Pass pass);

// For features with bags, after batch.rows is there: sums or means of bags.
void pool_bags(const Context& context, const BatchRef& batch, Pass pass);

}  // namespace emblem::cuda
