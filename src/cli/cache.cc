#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "core/text/text.h"
#include "data/source/objects/copy_check.h"
#include "data/source/objects/object_cache.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int64_t kAnySize = 1;  // nothing is added here

std::string age_of(int64_t seconds) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  return format_duration(static_cast<double>(std::max<int64_t>(0, now - seconds)));
}

std::string name_of(const CacheContent& content) {
  if (content.uri.empty()) return content.is_copy ? content.path : "(unfinished download)";
  std::string name = printable(content.uri);
  if (content.is_copy) name += "/";
  if (content.is_pending) name += cat("  (not uploaded yet: ", content.path, ")");
  if (content.is_used) name += "  (in use)";
  return name;
}

void print(const CacheContent& content) {
  std::printf("%12s  used %9s ago  %s\n", format_bytes(static_cast<double>(content.bytes)).c_str(),
              age_of(content.last_used).c_str(), name_of(content).c_str());
}

// Looking at a cache does not make one.
void require_cache(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(cache_folder(folder), ignored))
    throw Error(ErrorCode::kNotFound, cat("there is no cache folder ", cache_folder(folder),
                                          "; name it with --cache-dir or EMBLEM_CACHE"));
}

void list(const std::string& folder) {
  const ObjectCache cache(cache_folder(folder), kAnySize);
  int64_t bytes = 0;
  const std::vector<CacheContent> contents = cache.list();
  for (const CacheContent& content : contents) {
    print(content);
    bytes += content.bytes;
  }
  std::printf("%s: %zu objects, %s\n", cache.folder().c_str(), contents.size(),
              format_bytes(static_cast<double>(bytes)).c_str());
}

void clear(const std::string& folder) {
  ObjectCache cache(cache_folder(folder), kAnySize);
  const ClearedCache cleared = cache.clear();
  for (const CacheContent& content : cleared.kept) {
    std::printf("kept: ");
    print(content);
  }
  std::printf("%s: removed %s\n", cache.folder().c_str(),
              format_bytes(static_cast<double>(cleared.bytes)).c_str());
}

int verify(const std::string& folder) {
  ObjectCache cache(cache_folder(folder), kAnySize);
  const std::vector<CacheContent> contents = cache.list();
  const auto before =
      static_cast<size_t>(std::count_if(contents.begin(), contents.end(), [](const auto& one) {
        return !one.is_copy || has_copy_checksums(one.path);
      }));
  const std::vector<CacheContent> damaged = cache.verify();
  for (const CacheContent& content : damaged)
    std::printf("damaged and %s: %s\n", content.is_used ? "in use" : "removed",
                printable(content.uri.empty() ? content.path : content.uri).c_str());
  std::printf("%s: %zu of %zu objects are intact\n", cache.folder().c_str(),
              before - damaged.size(), before);
  return damaged.empty() ? 0 : 1;
}

}  // namespace

void add_cache(Command& program) {
  Command cache =
      program.add_command("cache", "Show, check or empty the cache folder of remote data");
  const auto add = [&](const char* name, const char* what, const auto& run) {
    const auto folder = std::make_shared<std::string>();
    Command command = cache.add_command(name, what);
    command.option("--cache-dir", *folder, "DIR",
                   "The folder (default: EMBLEM_CACHE, or the user's cache folder)");
    command.run([folder, run] {
      require_cache(*folder);
      return run(*folder);
    });
  };
  add("list", "Objects and copies of folders in the cache, with their size and last use",
      [](const std::string& folder) {
        list(folder);
        return 0;
      });
  add("clear", "Remove all that no process uses now and that the store has",
      [](const std::string& folder) {
        clear(folder);
        return 0;
      });
  add("verify", "Compare all checksums; damaged objects are removed",
      [](const std::string& folder) { return verify(folder); });
}

}  // namespace emblem
