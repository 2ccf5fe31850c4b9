// data/inspect.h - a data set at a glance.
#pragma once

#include <string>

#include "data/format/reader.h"

namespace emblem {

// Reads the whole data set and says in text: format, files, bytes, rows, share of positive labels,
// and for every column its type, missing share, smallest, mean and largest value, and the number of
// distinct values (exact up to 1024, then within some 3%).
std::string describe_dataset(const DataSource& source);

}  // namespace emblem
