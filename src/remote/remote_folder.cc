#include "remote/remote_folder.h"

#include <algorithm>
#include <filesystem>

#include "core/files/inner_path.h"
#include "core/math/checksum.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

std::string without_end_slashes(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

bool is_manifest(const std::string& name) { return name.ends_with(cat("/", kUnitManifest)); }

}  // namespace

RemoteFolder::RemoteFolder(RemoteStorage& storage, const std::string& uri, int depth)
    : storage_(storage), uri_(without_end_slashes(parse_object_uri(uri).text())), depth_(depth) {}

bool RemoteFolder::is_loose(const std::string& name) const {
  const std::vector<std::string> names = split(name, '/');
  return static_cast<int>(names.size()) <= depth_ &&
         std::none_of(names.begin(), names.end(),
                      [](const std::string& one) { return one.starts_with('.'); });
}

void RemoteFolder::look() {
  std::vector<ObjectInfo> objects = storage_.list(uri_, ListDepth::kAll).objects;
  std::erase_if(objects, [&](const ObjectInfo& object) {
    const std::string problem = inner_path_problem(name_of(object));
    if (!problem.empty()) log_warn(cat(printable(object.uri), " is skipped: its name ", problem));
    return !problem.empty();
  });
  std::sort(objects.begin(), objects.end(),
            [](const auto& a, const auto& b) { return a.uri < b.uri; });
  units_.clear();
  loose_.clear();
  names_.clear();
  std::set<std::string> units;
  for (const ObjectInfo& object : objects) {
    const std::string name = name_of(object);
    names_.insert(name);
    if (is_manifest(name) && !name.starts_with('.'))
      units.insert(std::filesystem::path(name).parent_path().string());
  }
  for (ObjectInfo& object : objects) {
    const std::string name = name_of(object);
    if (const std::string unit = unit_of(name, units); !unit.empty())
      units_[unit].push_back(std::move(object));
    else if (is_loose(name))
      loose_[name] = std::move(object);
  }
}

std::map<std::string, int64_t> RemoteFolder::look_at(const std::string& unit) {
  std::vector<ObjectInfo> objects = storage_.list(address(unit), ListDepth::kAll).objects;
  std::erase_if(objects, [&](const ObjectInfo& object) {
    return !inner_path_problem(name_of(object)).empty();
  });
  std::sort(objects.begin(), objects.end(),
            [](const auto& a, const auto& b) { return a.uri < b.uri; });
  std::map<std::string, int64_t> sizes;
  for (const ObjectInfo& object : objects)
    sizes[name_of(object).substr(unit.size() + 1)] = object.bytes;
  if (sizes.contains(kUnitManifest))
    units_[unit] = std::move(objects);
  else
    units_.erase(unit);
  return sizes;
}

void RemoteFolder::remove_manifest(const std::string& unit, const BeforeWrite& before) {
  storage_.remove(address(unit + "/" + kUnitManifest), before);
  look_at(unit);
  if (has(unit))
    throw Error(ErrorCode::kUnavailable,
                cat(shown_uri(address(unit + "/" + kUnitManifest)), " was not removed"));
}

void RemoteFolder::remove(const std::string& unit, const BeforeWrite& before) {
  remove_manifest(unit, before);
  storage_.remove_folder(address(unit), before);
}

std::string unit_of(const std::string& name, const std::set<std::string>& units) {
  for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1))
    if (units.contains(name.substr(0, slash))) return name.substr(0, slash);
  return "";
}

std::string hash_of(const std::string& text) { return cat(std::hex, checksum_of(text)); }

std::string fingerprint_of(RemoteStorage& storage, const std::vector<ObjectInfo>& objects) {
  std::string text;
  for (ObjectInfo object : objects) {
    const bool is_asked = object.etag.empty() && (objects.size() == 1 || is_manifest(object.uri));
    if (is_asked) {
      const auto now = storage.find(object.uri);
      if (!now)
        throw Error(ErrorCode::kUnavailable,
                    cat(shown_uri(object.uri), " was removed while it was looked at"));
      object.etag = now->etag;
    }
    text += cat(object.store, " ", object.uri, " ", object.bytes, " ", object.modified, " ",
                object.etag, "\n");
  }
  return hash_of(text);
}

}  // namespace emblem
