// data/format/memory/array_column.h - columns of Arrow arrays (the C data interface) as columns of
// a block: of tables in memory, of IPC and ORC files, and of messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/format/memory/array_format.h"

namespace emblem {

// The entries of the dictionary that was read last, so that they are converted once.
struct ArrayDictionary {
  const ArrowArray* array = nullptr;
  std::shared_ptr<TextDictionary> entries;
};

// Overwrites `out` with rows [begin, begin + rows) of a column of `array`, which check_array has
// let pass. Values that do not fit are 0 and added to `problems`. Throws Error that names `place`
// where offsets or codes lead outside of the arrays that they refer to.
void read_array_column(const ArrowSchema& schema, const ArrowArray& array, const ArrayField& field,
                       const ColumnRead& how, int64_t begin, int64_t rows,
                       ArrayDictionary& dictionary, const std::string& place, Column& out,
                       std::vector<ValueProblem>& problems);

}  // namespace emblem
