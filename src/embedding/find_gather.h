// embedding/find_gather.h - keys in, rows out: the kernels of a forward pass.
#pragma once

#include "core/context.h"
#include "core/half.h"
#include "embedding/row_shape.h"

namespace emblem::cuda {

struct BatchRef;

enum class Pass { kEval, kTrain };

// For the features of a class with one key a bag and without weights: finds the rows and copies
// them to the output. A key without a row reads as its table's initializer (in training, where it
// is about to get that very row) or `missing`. In training the row numbers are kept, missing keys
// listed and found rows marked. Asynchronous.
void find_gather(const Context& context, const BatchRef& batch, int cls, RowShape shape,
                 DType dtype, Pass pass);

// For features with bags: first the rows of all keys, then the sums of bags.
void find_rows(const Context& context, const BatchRef& batch, Pass pass);
void pool_bags(const Context& context, const BatchRef& batch, Pass pass);

}  // namespace emblem::cuda
