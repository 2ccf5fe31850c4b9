// data/format/file_kind.h - what the first bytes of a file say it is, before it is taken for text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace emblem {

enum class FileKind { kText, kGzip, kZstd, kNotText };

// A columnar format that this build knows how to read, by its first bytes.
enum class ColumnarKind { kNone, kParquet, kOrc, kArrow };

// `start` as for kind_of.
ColumnarKind columnar_kind_of(std::string_view start);

// Bytes that are enough to recognize a format.
inline constexpr int64_t kFileKindBytes = 4096;

// `start` is the beginning of a file, up to kFileKindBytes of it.
FileKind kind_of(std::string_view start);

// Why a file of kNotText is not text and what to do: "is UTF-16 text; convert it ...".
std::string not_text_problem(std::string_view start, const std::string& path);

// Why a file that is read as columns of `expected` ("Parquet") is something else, and what to do;
// "" if it may be what is expected. `start` as for kind_of.
std::string not_columnar_problem(std::string_view start, const std::string& path,
                                 std::string_view expected);

// Bytes that are looked at for text in another encoding than UTF-8.
inline constexpr int64_t kEncodingBytes = int64_t{64} << 10;

// "a.csv:3 is not UTF-8 (byte 0xf6); convert it: ..."; "" when `start` is
// UTF-8: a file, or the first kEncodingBytes of it.
std::string not_utf8_problem(std::string_view start, const std::string& path);
// The same for a known `byte` at `place`, a file and a line.
std::string not_utf8_problem(const std::string& place, char byte, const std::string& path);

// Bytes at the beginning of `start` that are not of the text: a UTF-8 byte order mark, and the line
// "sep=;" by which Excel is told the delimiter. At most kTextPrefixBytes.
inline constexpr int64_t kTextPrefixBytes = 10;
int64_t text_prefix(std::string_view start);

}  // namespace emblem
