// data/format/columnar/orc_process.h - asks the readers of ORC files (orc_readers.h). Internal to
// data/format: includes Arrow.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/format/columnar/arrow_input.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace emblem {

struct OrcLayout {
  int64_t rows = 0;
  std::vector<int64_t> stripe_rows;
  std::shared_ptr<arrow::Schema> schema;
};

// Both may run concurrently. Throw kCorruption with `place` where the file is damaged, even where
// its reader dies of it, and kUnavailable where none can be started.
OrcLayout read_orc_layout(ArrowInput& file, const std::string& place);
// `columns` are positions in the schema, ascending.
std::shared_ptr<arrow::RecordBatch> read_orc_stripe(ArrowInput& file, int stripe,
                                                    const std::vector<int>& columns,
                                                    const std::string& place);

}  // namespace emblem
