// data/format/parquet_pages.h - the pages of a row group without those that have no values, which
// libparquet takes for the end of a column. Internal to data/format: includes libparquet.
#pragma once

#include <parquet/file_reader.h>
#include <parquet/properties.h>

#include <memory>

namespace emblem {

// `properties` are those that the file was opened with.
std::shared_ptr<parquet::RowGroupReader> without_empty_pages(
    std::shared_ptr<parquet::RowGroupReader> group, const parquet::ReaderProperties& properties);

}  // namespace emblem
