// data/format/memory/table_file.h - tables in memory as the decoder of columnar files reads them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/format/columnar/columnar_decoder.h"
#include "data/format/memory/array_format.h"
#include "data/format/memory/table.h"

namespace emblem {

// `fields` are those of `table` that `reads` read, in that order. `place` names it in messages.
std::unique_ptr<PartReader> open_table_part(std::shared_ptr<const ColumnTable> table,
                                            std::vector<ArrayField> fields,
                                            std::vector<ColumnRead> reads, std::string place);

// One part with all rows.
std::unique_ptr<ColumnarFile> open_table(std::shared_ptr<const ColumnTable> table,
                                         std::string name);

// Tables with the same columns, which follow each other; source.input names them in messages.
std::unique_ptr<ColumnarDecoder> make_table_decoder(
    const DataSource& source, const std::vector<ColumnRequest>* requests,
    const std::vector<std::shared_ptr<const ColumnTable>>& tables);

}  // namespace emblem
