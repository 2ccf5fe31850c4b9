#include "data/items/id_file.h"

#include <algorithm>
#include <cmath>

#include "core/text/joined.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "data/source/whole_text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::string name_of_column(std::string_view column) {
  return std::string(column.substr(0, column.find(':')));
}

}  // namespace

Storage storage_of_files(const config::DataConfig& data, const std::vector<std::string>& files,
                         const Storage& storage) {
  const bool is_remote = std::ranges::any_of(files, has_remote_inputs);
  return storage == nullptr && is_remote ? open_storage(data) : storage;
}

std::string_view take_until(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

IdFile::IdFile(const std::string& path, std::vector<std::string> columns, char delimiter,
               const Storage& storage)
    : path_(path),
      columns_(std::move(columns)),
      delimiter_(delimiter),
      content_(read_whole_text(path, storage)),
      rest_(content_) {
  std::string_view header = take_line();
  for (const std::string& column : columns_) {
    const std::string_view found = take_until(header, delimiter_);
    if (name_of_column(found) != name_of_column(column))
      fail(cat("a field of the first line is \"", printable(std::string(found)), "\", expected ",
               name_of_column(column), "; the line names ", joined(columns_)));
  }
  width_ = columns_.size();
  if (!header.empty())
    width_ += 1 + static_cast<size_t>(std::count(header.begin(), header.end(), delimiter_));
}

std::string_view IdFile::take_line() {
  ++line_;
  std::string_view line = take_until(rest_, '\n');
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool IdFile::next() {
  while (!rest_.empty()) {
    const std::string_view line = take_line();
    if (line.empty()) continue;
    split(line);
    return true;
  }
  return false;
}

void IdFile::split(std::string_view line) {
  fields_.clear();
  for (size_t end;
       fields_.size() + 1 < width_ && (end = line.find(delimiter_)) != std::string_view::npos;
       line.remove_prefix(end + 1))
    fields_.push_back(line.substr(0, end));
  fields_.push_back(line);
  if (fields_.size() < columns_.size())
    fail(cat("the line has ", fields_.size(), " fields, expected ", columns_.size(), ": ",
             joined(columns_)));
  for (size_t i = 0; i + 1 < columns_.size(); ++i)
    if (fields_[i].empty()) fail(cat("the line has no ", name_of_column(columns_[i])));
}

double IdFile::weight(size_t column) const {
  const auto value = parse_number<double>(fields_[column]);
  if (!value || !std::isfinite(*value) || *value < 0)
    fail(cat("the weight is \"", printable(std::string(fields_[column])),
             "\", expected a number of at least 0"));
  return *value;
}

void IdFile::fail(const std::string& problem) const {
  throw Error(ErrorCode::kCorruption, cat(path_, ", line ", line_, ": ", problem));
}

}  // namespace emblem
