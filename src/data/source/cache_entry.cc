#include "data/source/cache_entry.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/math/checksum.h"
#include "core/text/shallow_json.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using nlohmann::json;

constexpr int64_t kEntryFormat = 1;

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

std::string seal_of(const json& content) {
  const std::string text = content.dump(-1, ' ', false, json::error_handler_t::replace);
  return hex(checksum_of(text));
}

CacheEntry entry_of(const json& content) {
  CacheEntry entry;
  content.at("uri").get_to(entry.object.uri);
  content.at("bytes").get_to(entry.object.bytes);
  content.at("modified").get_to(entry.object.modified);
  content.at("etag").get_to(entry.object.etag);
  entry.object.store = content.value("store", "");
  content.at("part_bytes").get_to(entry.part_bytes);
  content.at("fetched").get_to(entry.fetched);
  content.at("boot").get_to(entry.boot);
  content.at("data_changed").get_to(entry.data_changed);
  for (const json& one : content.at("checksums"))
    entry.checksums.push_back(std::stoull(one.get<std::string>(), nullptr, 16));
  return entry;
}

bool is_consistent(const CacheEntry& entry) {
  return entry.object.bytes >= 0 && entry.part_bytes > 0 &&
         static_cast<int64_t>(entry.checksums.size()) ==
             parts_of(entry.object.bytes, entry.part_bytes);
}

}  // namespace

int64_t parts_of(int64_t bytes, int64_t part_bytes) {
  return (bytes + part_bytes - 1) / part_bytes;
}

std::string cache_entry_text(const CacheEntry& entry) {
  json checksums = json::array();
  for (const uint64_t one : entry.checksums) checksums.push_back(hex(one));
  json content{{"format", kEntryFormat},
               {"uri", entry.object.uri},
               {"bytes", entry.object.bytes},
               {"modified", entry.object.modified},
               {"etag", entry.object.etag},
               {"part_bytes", entry.part_bytes},
               {"fetched", entry.fetched},
               {"boot", entry.boot},
               {"data_changed", entry.data_changed},
               {"checksums", checksums}};
  if (!entry.object.store.empty()) content["store"] = entry.object.store;
  content["seal"] = seal_of(content);
  return content.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<CacheEntry> parse_cache_entry(const std::string& text) {
  json content = json::parse(text, shallow_json, false);
  if (content.is_discarded() || !content.is_object()) return std::nullopt;
  try {
    const std::string seal = content.at("seal");
    content.erase("seal");
    if (content.at("format") != kEntryFormat || seal_of(content) != seal) return std::nullopt;
    CacheEntry entry = entry_of(content);
    if (is_consistent(entry)) return entry;
  } catch (const std::exception&) {  // a field is missing, or of another type
  }
  return std::nullopt;
}

std::string cache_name(const ObjectInfo& info) {
  // Listings of S3 have no etag: an object has the same name however it was found.
  const std::string version =
      cat(info.bytes, " ", info.modified, " ", info.modified == 0 ? info.etag : "");
  const std::string place = info.store.empty() ? info.uri : info.store + " " + info.uri;
  return hex(checksum_of(place)) + "-" + hex(checksum_of(version));
}

const std::string& boot_id() {
  static const std::string id = [] {
    std::string text;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
    return text;
  }();
  return id;
}

}  // namespace emblem
