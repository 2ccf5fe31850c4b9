#include "data/format/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/text/text.h"
#include "core/text/utf8.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  const char* what;
  const char* advice;
};

constexpr const char* kConvert = "convert it to CSV first";
constexpr const char* kSave = "save it as CSV (UTF-8) there";
constexpr Magic kWorkbooks[] = {
    {"[Content_Types].xml"sv, "a spreadsheet of Excel", kSave},
    {"xl/"sv, "a spreadsheet of Excel", kSave},
    {"mimetypeapplication/vnd.oasis"sv, "a spreadsheet of LibreOffice", kSave},
};
// Text of other kinds, in small letters and without spaces.
constexpr Magic kTexts[] = {
    {"{\""sv, "JSON", kConvert},
    {"[{"sv, "JSON", kConvert},
    {"<!doctypehtml"sv, "a page of HTML",
     "was the download refused? Expected CSV or another format"},
    {"<html"sv, "a page of HTML", "was the download refused? Expected CSV or another format"},
    {"<?xml"sv, "XML", kConvert},
};
constexpr Magic kMagics[] = {
    {"\xff\xfe\0\0"sv, "UTF-32 text", "convert it to UTF-8: iconv -f UTF-32 -t UTF-8"},
    {"\0\0\xfe\xff"sv, "UTF-32 text", "convert it to UTF-8: iconv -f UTF-32 -t UTF-8"},
    {"\xff\xfe"sv, "UTF-16 text", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff"sv, "UTF-16 text", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"},
    {"BZh"sv, "compressed by bzip2", "decompress it first: bunzip2"},
    {"\xfd"
     "7zXZ\0"sv,
     "compressed by xz", "decompress it first: unxz"},
    {"\x04\x22\x4d\x18"sv, "compressed by lz4", "decompress it first: unlz4"},
    {"PK\x03\x04"sv, "a zip archive", "unpack it first: unzip"},
    {"\xd0\xcf\x11\xe0"sv, "a spreadsheet of Excel", kSave},
    {"PAR1"sv, "Parquet", "set data_config { dataset_type: ParquetDataset }"},
    {"ARROW1"sv, "Arrow IPC", "set data_config { dataset_type: ArrowDataset }"},
    {"ORC"sv, "ORC", "set data_config { dataset_type: OrcDataset }"},
    {"Obj\x01"sv, "Avro", kConvert},
    {"\x89HDF"sv, "HDF5", kConvert},
    {"\x93NUMPY"sv, "a NumPy array", kConvert},
    {"SQLite format 3\0"sv, "an SQLite database", kConvert},
};

// Spreadsheets are zip archives whose first file has one of a few names.
const Magic* find_workbook(std::string_view start) {
  constexpr size_t kNameAt = 30;
  if (!start.starts_with("PK\x03\x04"sv) || start.size() < kNameAt) return nullptr;
  for (const Magic& magic : kWorkbooks)
    if (start.substr(kNameAt).starts_with(magic.bytes)) return &magic;
  return nullptr;
}

// Whether the first line, as far as it is there, is JSON to its end: a column of a TSV may be, too.
bool ends_like_json(std::string_view start) {
  const size_t end = start.find('\n', start.find_first_of("{["));
  if (end == start.npos) return true;
  const std::string_view line = trim(start.substr(0, end));
  return line.find_last_of("{}[],") == line.size() - 1;
}

const Magic* find_text(std::string_view start) {
  std::string text;
  for (const char c : start.substr(static_cast<size_t>(text_prefix(start)))) {
    if (text.size() == 16) break;
    if (!std::isspace(static_cast<unsigned char>(c)))
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const Magic& magic : kTexts)
    if (text.starts_with(magic.bytes))
      return magic.what != "JSON"sv || ends_like_json(start) ? &magic : nullptr;
  return nullptr;
}

const Magic* find_magic(std::string_view start) {
  if (const Magic* workbook = find_workbook(start)) return workbook;
  for (const Magic& magic : kMagics)
    if (start.starts_with(magic.bytes)) return &magic;
  return find_text(start);
}

// UTF-16 without a byte order mark: every other byte of plain text is 0.
bool looks_like_utf16(std::string_view start) {
  size_t zeros[2] = {};
  for (size_t i = 0; i < start.size(); ++i) zeros[i % 2] += start[i] == '\0';
  const size_t half = start.size() / 2;
  return start.size() >= 8 &&
         ((zeros[0] == 0 && zeros[1] * 4 > half * 3) || (zeros[1] == 0 && zeros[0] * 4 > half * 3));
}

// Line ends of old Macintosh programs, which spreadsheets still offer.
bool has_only_carriage_returns(std::string_view start) {
  const size_t first = start.find('\r');
  return start.find('\n') == std::string_view::npos && first != std::string_view::npos &&
         first + 1 < start.size();
}

}  // namespace

FileKind kind_of(std::string_view start) {
  if (start.starts_with("\x1f\x8b"sv)) return FileKind::kGzip;
  if (start.starts_with("\x28\xb5\x2f\xfd"sv)) return FileKind::kZstd;
  // A skippable frame, as parallel compressors write them in front.
  if (start.size() >= 4 && (static_cast<uint8_t>(start[0]) & 0xf0) == 0x50 &&
      start.substr(1).starts_with("\x2a\x4d\x18"sv))
    return FileKind::kZstd;
  // Words like "ORC" may begin text as well; text has no byte 0.
  const bool binary = start.find('\0') != std::string_view::npos;
  const Magic* magic = find_magic(start);
  const bool certain = magic != nullptr && (static_cast<uint8_t>(magic->bytes[0]) >= 0x80 ||
                                            find_text(start) != nullptr);
  return binary || certain || has_only_carriage_returns(start) ? FileKind::kNotText
                                                               : FileKind::kText;
}

ColumnarKind columnar_kind_of(std::string_view start) {
  // Words like "ORC" may begin text as well; text has no byte 0.
  if (start.find('\0') == std::string_view::npos) return ColumnarKind::kNone;
  if (start.starts_with("PAR1"sv)) return ColumnarKind::kParquet;
  if (start.starts_with("ORC"sv)) return ColumnarKind::kOrc;
  return start.starts_with("ARROW1\0\0"sv) ? ColumnarKind::kArrow : ColumnarKind::kNone;
}

std::string not_text_problem(std::string_view start, const std::string& path) {
  if (const Magic* magic = find_magic(start))
    return cat(path, " is ", magic->what, "; ", magic->advice);
  if (looks_like_utf16(start))
    return cat(path, " is UTF-16 text; convert it to UTF-8: iconv -f UTF-16 -t UTF-8");
  if (has_only_carriage_returns(start) && start.find('\0') == std::string_view::npos)
    return cat(path, ": line ends are CR only; convert them: tr '\\r' '\\n' < ", path,
               " > NEW_FILE");
  return cat(
      path,
      " is not text: it has bytes 0 near its beginning; expected UTF-8 text (binary formats have "
      "their own dataset_type)");
}

std::string not_columnar_problem(std::string_view start, const std::string& path,
                                 std::string_view expected) {
  if (const Magic* magic = find_magic(start))
    return magic->what == expected
               ? ""
               : cat(path, " is ", magic->what, ", not ", expected, "; ", magic->advice);
  if (kind_of(start) == FileKind::kNotText) return "";
  std::string format;  // as commands name it
  for (const char c : expected.substr(0, expected.find(' ')))
    format += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return cat(path, " is text, not ", expected,
             "; set data_config { dataset_type: CsvDataset } if all data are, else convert it: "
             "emblem convert --from ",
             path, " --to NEW_FOLDER --format ", format);
}

std::string not_utf8_problem(const std::string& place, char byte, const std::string& path) {
  return fmt::format(
      "{} is not UTF-8 (byte 0x{:02x}); convert it: iconv -f CP1252 -t UTF-8 {} > NEW_FILE", place,
      static_cast<uint8_t>(byte), path);
}

std::string not_utf8_problem(std::string_view start, const std::string& path) {
  const size_t at = find_invalid_utf8(start, std::ssize(start) >= kEncodingBytes);
  if (at == std::string_view::npos) return "";
  const auto line = 1 + std::count(start.begin(), start.begin() + static_cast<int64_t>(at), '\n');
  return not_utf8_problem(cat(path, ":", line), start[at], path);
}

int64_t text_prefix(std::string_view start) {
  const int64_t mark = start.starts_with("\xef\xbb\xbf"sv) ? 3 : 0;
  const std::string_view line = start.substr(static_cast<size_t>(mark));
  if (!line.starts_with("sep="sv) || line.size() < 6) return mark;
  const std::string_view end = line.substr(5);
  return mark + (end.starts_with('\n') ? 6 : end.starts_with("\r\n"sv) ? 7 : 0);
}

}  // namespace emblem
