// data/convert.h - from any readable format to any writable one, rows in order.
#pragma once

#include <cstdint>
#include <string>

#include "core/device/context.h"
#include "data/format/reader.h"
#include "data/format/writer.h"

namespace emblem {

struct ConvertOptions {
  DataSource from;
  std::string to;      // a folder
  std::string format;  // writable_formats()
  WriterOptions writing;
};

struct ConvertResult {
  int64_t rows = 0;
  int64_t bad_rows = 0;  // skipped
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
};

// Throws Error when rows cannot be read, or hold what the format cannot represent; then nothing is
// written. Shows progress on stderr.
ConvertResult convert(const Context& context, const ConvertOptions& options);

// What is known of an input; the rest is guessed from the input itself.
struct InputHints {
  std::string format;        // "tsv", "csv", "raw", "split", "libfm", "parquet", ...; "": guessed
  std::string delimiter;     // csv: one character, or "\\t" spelled out; "": guessed
  bool with_header = false;  // csv: true when the first line holds names; false: guessed
  int num_dense = 13, num_sparse = 26;
  int64_t max_bad_rows = 0;
  Storage storage;  // storage of addresses
};

// Throws Error for an unknown format, listing the choices.
DataSource describe_input(const std::string& path, const InputHints& hints);

}  // namespace emblem
