// data/format/columnar/declared_type.h - data that contradict the types of
// data_config.input_fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/proto/data.pb.h"
#include "data/format/decoder.h"

namespace emblem {

// Why the text of a value, which is not missing, is not of the declared type; "": it is. For lists
// the text is that of one value; maps and text have no problems.
std::string declared_value_problem(config::FieldType declared, std::string_view text);

// Why a column of a file with types is not of the declared type, for a warning; "": it is, or it is
// text, of which each value is checked. Integers are numbers, and whatever is a number has text.
std::string declared_column_problem(config::FieldType declared, const ColumnSpec& column);

// Logs it of the columns of `source` that were made for `requests`, each once.
void warn_of_declared_types(const std::vector<ColumnRequest>& requests,
                            const std::vector<ColumnSpec>& columns, const std::string& source);

}  // namespace emblem
