#include "data/source/objects/copy_check.h"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/math/checksum.h"
#include "core/system/log.h"
#include "core/text/shallow_json.h"
#include "data/source/cache_entry.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kChecksums = ".checksums.json";

struct FileState {
  int64_t bytes = -1;
  int64_t changed = 0;  // nanoseconds; ctime, which programs cannot set
  uint64_t checksum = 0;
};

FileState state_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {static_cast<int64_t>(status.st_size), nanoseconds(status.st_ctim)};
}

uint64_t checksum_of_file(const std::string& path) {
  const MappedFile file(path);
  return checksum_of(file.bytes().data(), file.bytes().size());
}

void write(const std::string& copy, const std::map<std::string, FileState>& files) {
  json list = json::object();
  for (const auto& [name, state] : files) list[name] = {state.bytes, state.changed, state.checksum};
  const json content{{"boot", boot_id()}, {"files", list}};
  write_text_file_atomically(copy + "/" + kChecksums,
                             content.dump(-1, ' ', false, json::error_handler_t::replace));
}

// Where that fails (a full disk), checksums are compared again next time.
void try_to_write(const std::string& copy, const std::map<std::string, FileState>& files) {
  try {
    write(copy, files);
  } catch (const Error& error) {
    log_debug(error.what());
  }
}

// Throws when a file cannot be read, or the list is not one.
bool compare_with(const std::string& copy, const json& content, CompareCopy compare) {
  const bool is_same_boot = content.at("boot").get<std::string>() == boot_id();
  std::map<std::string, FileState> files;
  bool was_changed = false;
  for (const auto& [name, known] : content.at("files").items()) {
    FileState now = state_of(copy + "/" + name);
    if (now.bytes != known.at(0).get<int64_t>()) return false;
    now.checksum = known.at(2).get<uint64_t>();
    const bool is_known = is_same_boot && now.changed == known.at(1).get<int64_t>();
    if (!is_known || compare == CompareCopy::kAll) {
      if (checksum_of_file(copy + "/" + name) != now.checksum) return false;
      was_changed = was_changed || !is_known;
    }
    files[name] = now;
  }
  if (was_changed) try_to_write(copy, files);
  return true;
}

}  // namespace

void write_copy_checksums(const std::string& copy) {
  std::map<std::string, FileState> files;
  for (const auto& entry : fs::recursive_directory_iterator(copy)) {
    const std::string name = entry.path().lexically_relative(copy).string();
    if (!entry.is_regular_file() || name.starts_with('.')) continue;
    files[name] = state_of(entry.path());
    files[name].checksum = checksum_of_file(entry.path());
  }
  write(copy, files);
}

bool has_copy_checksums(const std::string& copy) {
  std::error_code ignored;
  return fs::exists(copy + "/" + kChecksums, ignored);
}

bool is_copy_intact(const std::string& copy, CompareCopy compare) {
  try {
    return compare_with(copy, json::parse(read_text_file(copy + "/" + kChecksums), shallow_json),
                        compare);
  } catch (const std::exception& error) {
    log_debug(cat(copy, ": ", error.what()));
    return false;
  }
}

}  // namespace emblem
