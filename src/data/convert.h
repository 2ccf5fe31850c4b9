// data/convert.h - from any readable format to any writable one, rows in order.
#pragma once

#include <cstdint>
#include <string>

#include "core/context.h"
#include "data/reader.h"
#include "data/writer.h"

namespace emblem {

struct ConvertOptions {
  DataSource from;
  std::string to;              // a folder
  std::string format;          // writable_formats()
  WriterOptions writing;
};

struct ConvertResult {
  int64_t rows = 0;
  int64_t bad_rows = 0;        // skipped
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
};

// Throws Error when rows cannot be read, or hold what the format cannot represent; then nothing is written. Shows progress
// on stderr.
ConvertResult convert(const Context& context, const ConvertOptions& options);

// "tsv", "csv", "raw", "split", "libfm": what --from-format accepts. Throws Error listing them.
config::DatasetType parse_readable_format(const std::string& name);

}  // namespace emblem
