// data/format/rows/kept_columns.h - columns of the input that pass through as text, next to the
// values that are decoded: DataSource::keep.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "data/batch.h"

namespace emblem {

// `text` as a field of a CSV file: in quotes where it holds the delimiter, quotes or line breaks,
// or has spaces at its ends, which would be taken for padding.
std::string csv_field(std::string_view text, char delimiter);

// Fields as one line of comma-separated values, without an end.
std::string csv_line(std::span<const std::string> fields);

}  // namespace emblem
