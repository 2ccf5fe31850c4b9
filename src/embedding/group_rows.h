// embedding/group_rows.h - brings the occurrences of each distinct row of a batch together.
#pragma once

#include "core/context.h"

namespace emblem::cuda {

struct BatchRef;

// After the marks of a training pass: lays out a segment for each distinct row, puts its
// occurrences there, and moves the tables' clocks on. Asynchronous.
void group_rows(const Context& context, const BatchRef& batch);

}  // namespace emblem::cuda
