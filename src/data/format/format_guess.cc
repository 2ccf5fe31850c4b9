// Which format a path holds, for commands that are given a path and nothing else.
#include <algorithm>
#include <filesystem>

#include "core/file.h"
#include "core/text.h"
#include "data/format/csv_types.h"
#include "data/format/reader.h"
#include "data/format/text_file.h"
#include "data/format/text_scan.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
  std::string text = read_text_start(path, 1 << 16);
  text.resize(std::min(text.find('\n'), text.size()));
  if (!text.empty() && text.back() == '\r') text.pop_back();
  return text;
}

bool is_text(const std::string& line) {
  return std::none_of(line.begin(), line.end(), [](char c) {
    return static_cast<uint8_t>(c) < ' ' && c != '\t' && c != 0x1d && c != 0x03;
  });
}

bool is_number(const std::string& text) {
  float value = 0;
  return !text.empty() && parse_float(text, value);
}

// "1 5:1 7:0.5": a number, then pairs of them.
bool is_libfm(const std::string& line) {
  const std::vector<std::string> tokens = split(trim(line), ' ');
  if (tokens.size() < 2 || !is_number(tokens[0])) return false;
  return std::all_of(tokens.begin() + 1, tokens.end(), [](const std::string& token) {
    const size_t colon = token.find(':');
    return token.empty() || (colon != std::string::npos && is_number(token.substr(0, colon)));
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
         std::all_of(fields.begin(), words,
                     [](const std::string& field) { return field.empty() || is_number(field); });
}

bool is_split_folder(const fs::path& path) {
  return fs::exists(path / "label.bin") && fs::exists(path / "dense.bin");
}

std::string first_file(const std::string& path) {
  const std::vector<std::string> files = expand_paths(path);
  EMBLEM_REQUIRE(!files.empty(), path, " holds no files");
  return files[0];
}

// ".csv" of "a.csv" and of "a.csv.gz".
std::string ending_of(const std::string& file) {
  fs::path path(file);
  if (path.extension() == ".gz" || path.extension() == ".zst") path = path.stem();
  return path.extension().string();
}

}  // namespace

config::DatasetType guess_format(const std::string& path) {
  if (is_split_folder(path)) return config::SplitDataset;
  const std::string file = first_file(path);
  const std::string ending = ending_of(file);
  if (ending == ".csv") return config::CsvDataset;
  if (ending == ".libfm" || ending == ".svm" || ending == ".libsvm") return config::LibfmDataset;
  if (ending == ".bin") return config::RawDataset;
  const std::string line = first_line(file);
  if (is_text(line)) {
    const std::vector<std::string> fields = split_csv_line(line, '\t');
    if (fields.size() > 2 && is_criteo(fields)) return config::CriteoTsvDataset;
    if (is_libfm(line)) return config::LibfmDataset;
    if (fields.size() > 1 || line.find(',') != std::string::npos) return config::CsvDataset;
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      cat(file,
          ": cannot tell its format; expected Criteo TSV, CSV (.csv), libfm text (.libfm), "
          "HugeCTR Raw (.bin), or a split folder with label.bin, dense.bin and category.bin"));
}

DataSource guess_source(const std::string& path) {
  DataSource source;
  source.input = path;
  source.type = guess_format(path);
  if (source.type != config::CsvDataset) return source;
  const std::string line = first_line(first_file(path));
  const auto count = [&](char c) { return std::count(line.begin(), line.end(), c); };
  for (const char delimiter : {'\t', ';', '|'}) {
    if (count(delimiter) > count(source.delimiter[0])) source.delimiter = delimiter;
  }
  // Headers are names; a first line with a number in it is a row.
  const std::vector<std::string> fields = split_csv_line(line, source.delimiter[0]);
  source.with_header = std::none_of(fields.begin(), fields.end(), is_number);
  if (!source.with_header) {
    for (size_t i = 1; i <= fields.size(); ++i) {
      source.fields.emplace_back().set_input_name("column" + std::to_string(i));
    }
  }
  return source;
}

}  // namespace emblem
