// data/format/text/csv_rows.h - where rows of separated values begin and end: a field in quotes may
// hold line ends.
//
// Worker threads read pieces of a file, so that the place of a row must follow from the text around
// it. A quote that opens a field follows a delimiter or a line end, and one that closes it is
// followed by one; within a field quotes are doubled. So single quotes say on which side of them a
// field is, and those within kMostQuotedBytes of a place whether it is inside of one.
#pragma once

#include <cstdint>
#include <string_view>

namespace emblem {

// A field in quotes with line ends may have this many bytes. A quote that is not closed within them
// is not closed at all: its row ends with its line.
inline constexpr int64_t kMostQuotedBytes = int64_t{64} << 10;

// The '\n' at the end of the row that begins at `at`. The text ends at `end`, with a '\n'. A field
// may be delimited by any of `delimiters`.
const char* find_row_end(const char* at, const char* end, std::string_view delimiters);

// A part of a file around a place.
struct CsvWindow {
  const char *begin = nullptr, *end = nullptr;
  bool ends_file = false;  // with a '\n'
};

// Bytes before a place that find_row_start looks at, unless the file begins there.
inline constexpr int64_t kBytesBeforeRowStart = kMostQuotedBytes + 64;

// Where the first row begins near `at` or after it: the same for every window that holds what is
// needed. The end of the window where the file has no further row. Null: more text after `at` is
// needed; kMostQuotedBytes are always enough to begin with.
const char* find_row_start(const CsvWindow& window, const char* at, std::string_view delimiters);

}  // namespace emblem
