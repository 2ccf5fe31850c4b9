#include "serve/repository/sent_model.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/file.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 10'000;
constexpr size_t kLongestPath = 1024;

std::string make_folder() {
  std::error_code error;
  const fs::path root = fs::temp_directory_path(error);
  std::string pattern = (root / "emblem_model_XXXXXX").string();
  if (error || mkdtemp(pattern.data()) == nullptr)
    throw Error(ErrorCode::kUnavailable,
                cat("cannot make a folder for the model's files in ", root.string(), ": ",
                    error ? error.message() : std::strerror(errno)));
  return pattern;
}

// Nothing that leads out of the folder of a version: "1/tables/C1/emb_vector".
void check_path(const std::string& path) {
  const std::vector<std::string> parts = split(path, '/');
  const bool is_below = parts.size() >= 2 && version_of(parts[0]) > 0;
  const bool is_plain = std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    return !part.empty() && part != "." && part != ".." && part.find('\0') == std::string::npos;
  });
  EMBLEM_REQUIRE(path.size() <= kLongestPath && is_below && is_plain, "load: the path '",
                 printable(path.substr(0, 100)),
                 "' of a file is not valid; expected VERSION/FILE, e.g. 1/manifest.json");
}

}  // namespace

SentModel::SentModel(const std::string& name, const std::map<std::string, std::string>& files) {
  EMBLEM_REQUIRE(files.size() <= kMostFiles, "load: the model has ", files.size(),
                 " files; expected at most ", kMostFiles);
  for (const auto& [path, bytes] : files) check_path(path);
  folder_ = make_folder();
  try {
    for (const auto& [path, bytes] : files) {
      const fs::path file = fs::path(folder_) / name / path;
      fs::create_directories(file.parent_path());
      FileWriter writer(file.string());
      writer.write(bytes);
      writer.finish();
    }
    repository_ = std::make_unique<Repository>(folder_);
  } catch (const fs::filesystem_error& error) {  // a file where another needs a folder, say
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    throw Error(ErrorCode::kInvalidArgument,
                cat("load: the model's files cannot be written: ", error.code().message()));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    throw;
  }
}

SentModel::~SentModel() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace emblem
