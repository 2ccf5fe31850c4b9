#include "data/converted.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "data/source/uri.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kIndex = ".index.json";

}  // namespace

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder).string());
  std::sort(names.begin(), names.end());
  return names;
}

void write_bundle_index(const std::string& folder, const BlockReader& reader) {
  json files = json::array(), sources = json::array();
  for (const std::string& name : files_in(folder))
    if (name != kIndex)
      files.push_back({{"name", name}, {"bytes", fs::file_size(folder + "/" + name)}});
  int64_t row = 0;
  for (size_t i = 0; i < reader.files().size(); ++i) {
    const int64_t rows = reader.rows_of_files()[i];
    sources.push_back({{"path", shown_uri(reader.files()[i])}, {"first_row", row}, {"rows", rows}});
    row += rows;
  }
  const json index{{"format", 1}, {"rows", row}, {"files", files}, {"sources", sources}};
  write_text_file_atomically(folder + "/" + kIndex,
                             index.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace emblem
