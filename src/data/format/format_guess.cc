// Which format a path holds, for commands that are given a path and nothing else.
#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/text/text.h"
#include "data/format/file_kind.h"
#include "data/format/input_file.h"
#include "data/format/reader.h"
#include "data/format/rows/files_without_rows.h"
#include "data/format/text/csv_rows.h"
#include "data/format/text/csv_types.h"
#include "data/format/text/text_file.h"
#include "data/format/text/text_scan.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr char kDelimiters[] = {',', '\t', ';', '|'};

// Whole rows from the beginning of a file, without line ends and blank lines.
std::vector<std::string> start_lines(const std::string& path, const Storage& storage) {
  constexpr int64_t kBytes = 1 << 16;
  std::string text = read_text_start(path, kBytes, storage);
  const bool is_cut = static_cast<int64_t>(text.size()) == kBytes;
  if (!text.ends_with('\n')) text += '\n';
  std::vector<std::string> lines;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const char* const row_end =
        find_row_end(at, end, std::string_view(kDelimiters, sizeof kDelimiters));
    const bool is_last = row_end + 1 == end;
    if (!is_last || !is_cut || lines.empty()) lines.emplace_back(at, row_end);
    at = row_end + 1;
  }
  for (std::string& line : lines)
    if (line.ends_with('\r')) line.pop_back();
  std::erase(lines, "");
  return lines;
}

bool is_text(const std::string& line) {
  return std::none_of(line.begin(), line.end(), [](char c) {
    return static_cast<uint8_t>(c) < ' ' && c != '\t' && c != 0x1d && c != 0x03;
  });
}

bool is_number_text(const std::string& text) {
  float value = 0;
  return !text.empty() && parse_float(text, value);
}

// "1 5:1 7:0.5": a number, then pairs of them.
bool is_libfm(const std::string& line) {
  const std::vector<std::string> tokens = split(trim(line), ' ');
  if (tokens.size() < 2 || !is_number_text(tokens[0])) return false;
  return std::all_of(tokens.begin() + 1, tokens.end(), [](const std::string& token) {
    const size_t colon = token.find(':');
    return token.empty() || (colon != std::string::npos && is_number_text(token.substr(0, colon)));
  });
}

// Fields that are numbers or empty first, then hexadecimal words or empty.
bool is_criteo(const std::vector<std::string>& fields) {
  const auto is_word = [](const std::string& field) {
    int64_t word = 0;
    return field.empty() || (field.size() == 8 && parse_hexadecimal(field, word));
  };
  const auto words = std::find_if_not(fields.rbegin(), fields.rend(), is_word).base();
  return fields.size() > 2 && words != fields.end() &&
         std::all_of(fields.begin(), words, [](const std::string& field) {
           return field.empty() || is_number_text(field);
         });
}

// Fields of each line, up to 100 lines.
std::vector<size_t> field_counts(const std::vector<std::string>& lines, char delimiter) {
  std::vector<size_t> counts;
  for (const std::string& line : lines) {
    counts.push_back(split_csv_line(line, delimiter).size());
    if (counts.size() == 100) break;
  }
  return counts;
}

// The one that cuts all lines into the same number of fields, the most if there are several; else
// the one that cuts the first line into the most fields.
char guess_delimiter(const std::vector<std::string>& lines) {
  char best = kDelimiters[0];
  std::pair<bool, size_t> best_rank{false, 1};
  for (const char delimiter : kDelimiters) {
    const std::vector<size_t> counts = field_counts(lines, delimiter);
    if (counts[0] < 2) continue;
    const bool alike =
        std::all_of(counts.begin(), counts.end(), [&](size_t count) { return count == counts[0]; });
    const std::pair rank{alike, counts[0]};
    if (rank > best_rank) {
      best = delimiter;
      best_rank = rank;
    }
  }
  return best;
}

// A first line with a number in it is a row; so is one in a file of text alone if a field of it
// occurs again in the same column.
bool guess_header(const std::vector<std::string>& lines, char delimiter) {
  const std::vector<std::string> first = split_csv_line(lines[0], delimiter);
  if (std::any_of(first.begin(), first.end(), is_number_text)) return false;
  size_t repeated = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> row = split_csv_line(lines[i], delimiter);
    if (row.size() != first.size()) continue;
    if (std::any_of(row.begin(), row.end(), is_number_text)) return true;
    for (size_t at = 0; at < row.size(); ++at) repeated += !row[at].empty() && row[at] == first[at];
  }
  return repeated == 0;
}

bool is_split_folder(const std::string& path, const Storage& storage) {
  const auto holds = [&](const char* name) {
    std::error_code ignored;  // a list of files may be longer than any path
    if (!is_object_uri(path)) return fs::exists(fs::path(path) / name, ignored);
    const bool is_folder = !is_glob(path) && path.find(',') == std::string::npos;
    return is_folder && storage_for(storage, path).find(join_uri(path, name)).has_value();
  };
  return holds("label.bin") && holds("dense.bin");
}

// The first that is not empty.
std::string first_file(const std::string& path, const Storage& storage) {
  const std::vector<std::string> files = expand_inputs(path, storage);
  EMBLEM_REQUIRE(!files.empty(), path, " holds no files");
  for (const std::string& file : files)
    if (InputFile(file, storage).bytes() > 0) return file;
  throw Error(ErrorCode::kCorruption, cat(files[0], " ", kEmptyFile));
}

struct TextStart {
  std::string file;
  std::vector<std::string> lines;  // as of start_lines; at least one, which may be ""
};

// The start of the first file with two lines, as a header and a row are, else of the first with
// one.
TextStart first_text(const std::string& path, const Storage& storage) {
  TextStart found;
  for (const std::string& file : expand_inputs(path, storage)) {
    std::vector<std::string> lines = start_lines(file, storage);
    if (lines.size() > found.lines.size()) found = {file, std::move(lines)};
    if (found.lines.size() > 1) return found;
  }
  if (found.lines.empty()) found = {first_file(path, storage), {""}};
  return found;
}

// ".csv" of "a.csv" and of "a.csv.gz".
std::string ending_of(const std::string& file) {
  fs::path path(file);
  if (path.extension() == ".gz" || path.extension() == ".zst") path = path.stem();
  return path.extension().string();
}

// The type by the first bytes of a file.
std::optional<config::DatasetType> columnar_type_of(const std::string& file,
                                                    const Storage& storage) {
  const InputFile input(file, storage);
  std::string start(static_cast<size_t>(std::min(input.bytes(), kFileKindBytes)), '\0');
  input.read(0, static_cast<int64_t>(start.size()), start.data());
  switch (columnar_kind_of(start)) {
    case ColumnarKind::kParquet:
      return config::ParquetDataset;
    case ColumnarKind::kOrc:
      return config::OrcDataset;
    case ColumnarKind::kArrow:
      return config::ArrowDataset;
    case ColumnarKind::kNone:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<config::DatasetType> known_format(const std::string& path, const Storage& storage) {
  if (is_memory_address(path)) return config::ArrowDataset;  // columns with types
  if (is_split_folder(path, storage)) return config::SplitDataset;
  const std::string file = first_file(path, storage);
  if (const auto type = columnar_type_of(file, storage)) return *type;
  const std::string ending = ending_of(file);
  if (ending == ".parquet") return config::ParquetDataset;  // or what should be one
  if (ending == ".orc") return config::OrcDataset;
  if (ending == ".arrow" || ending == ".feather") return config::ArrowDataset;
  if (ending == ".csv") return config::CsvDataset;
  if (ending == ".libfm" || ending == ".svm" || ending == ".libsvm") return config::LibfmDataset;
  if (ending == ".bin") return config::RawDataset;
  return std::nullopt;
}

config::DatasetType guess_format(const std::string& path, const Storage& storage) {
  if (const auto type = known_format(path, storage)) return *type;
  const std::string line = first_text(path, storage).lines[0];
  if (is_text(line)) {
    const std::vector<std::string> fields = split_csv_line(line, '\t');
    if (fields.size() > 2 && is_criteo(fields)) return config::CriteoTsvDataset;
    if (is_libfm(line)) return config::LibfmDataset;
    if (line.find_first_of(std::string_view(kDelimiters, sizeof kDelimiters)) != std::string::npos)
      return config::CsvDataset;
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      cat(first_file(path, storage),
          ": cannot tell its format; expected Parquet, ORC, Arrow IPC, Criteo TSV, CSV (.csv), "
          "libfm text (.libfm), HugeCTR Raw (.bin), or a split folder with label.bin, dense.bin "
          "and category.bin"));
}

DataSource guess_source(const std::string& path, const CsvHints& hints, const Storage& storage) {
  DataSource source;
  source.storage = storage;
  source.input = path;
  const bool is_csv = hints.with_header || !hints.delimiter.empty() || !hints.names.empty();
  source.type = is_csv ? config::CsvDataset : guess_format(path, storage);
  if (source.type != config::CsvDataset) return source;
  const auto [file, lines] = first_text(path, storage);
  source.delimiter =
      hints.delimiter.empty() ? std::string(1, guess_delimiter(lines)) : hints.delimiter;
  const std::vector<std::string> fields = split_csv_line(lines[0], source.delimiter[0]);
  const bool is_named = !is_number_text(hints.known_column) &&
                        std::find(fields.begin(), fields.end(), hints.known_column) != fields.end();
  source.with_header =
      hints.names.empty() && hints.with_header.value_or((is_named && !hints.known_column.empty()) ||
                                                        guess_header(lines, source.delimiter[0]));
  if (source.with_header) return source;
  EMBLEM_REQUIRE(hints.names.empty() || hints.names.size() == fields.size(), file, " has ",
                 fields.size(), fields.size() == 1 ? " column" : " columns", ", but ",
                 hints.names.size(), " names are given");
  for (size_t i = 0; i < fields.size(); ++i) {
    source.fields.emplace_back().set_input_name(
        hints.names.empty() ? "column" + std::to_string(i + 1) : hints.names[i]);
  }
  return source;
}

std::vector<std::string> csv_names(const DataSource& source) {
  std::vector<std::string> names;
  for (const config::Field& field : source.fields) names.push_back(field.input_name());
  if (!source.with_header) return names;
  return split_csv_line(first_text(source.input, source.storage).lines[0], source.delimiter[0]);
}

}  // namespace emblem
