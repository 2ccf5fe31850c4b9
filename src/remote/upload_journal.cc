#include "remote/upload_journal.h"

#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/system/log.h"
#include "core/text/json_error.h"
#include "core/text/shallow_json.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

FileStamp stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {static_cast<int64_t>(status.st_size), nanoseconds(status.st_mtim)};
}

UploadJournal::UploadJournal(std::string path) : path_(std::move(path)) {
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) return;
  try {
    load();
  } catch (const std::exception& error) {
    log_warn(cat(path_, " is damaged (", json_problem(error.what()),
                 "); the store is asked what it has"));
    units_.clear();
    files_.clear();
  }
}

void UploadJournal::load() {
  const Json json = Json::parse(read_text_file(path_), shallow_json);
  for (const auto& [name, unit] : json.at("units").items())
    units_[name] = {unit.at("own").get<std::set<std::string>>(),
                    unit.at("confirmed").get<std::string>()};
  for (const auto& [name, file] : json.at("files").items())
    files_[name] = {file.at(0).get<int64_t>(), file.at(1).get<int64_t>()};
}

void UploadJournal::save() const {
  Json units = Json::object(), files = Json::object();
  for (const auto& [name, unit] : units_)
    units[name] = {{"own", unit.own}, {"confirmed", unit.confirmed}};
  for (const auto& [name, stamp] : files_) files[name] = {stamp.bytes, stamp.changed};
  const Json json{{"format", 1}, {"units", units}, {"files", files}};
  write_text_file_atomically(path_, json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

bool UploadJournal::is_confirmed(const std::string& unit, const std::string& version) const {
  const auto found = units_.find(unit);
  return found != units_.end() && found->second.confirmed == version;
}

bool UploadJournal::is_own(const std::string& unit, const std::string& version) const {
  const auto found = units_.find(unit);
  return found != units_.end() && found->second.own.contains(version);
}

void UploadJournal::will_send(const std::string& unit, const std::string& version) {
  units_[unit].own.insert(version);
  save();
}

void UploadJournal::confirm(const std::string& unit, const std::string& version) {
  units_[unit].own.insert(version);
  units_[unit].confirmed = version;
}

void UploadJournal::forget(const std::string& unit) {
  units_.erase(unit);
  std::erase_if(files_, [&](const auto& file) { return file.first.starts_with(unit + "/"); });
}

bool UploadJournal::has(const std::string& name, const FileStamp& stamp) const {
  const auto found = files_.find(name);
  return found != files_.end() && found->second == stamp;
}

}  // namespace emblem
