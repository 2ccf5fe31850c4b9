#include "data/source/data_set_manifest.h"

#include <map>
#include <nlohmann/json.hpp>

#include "emblem/error.h"

namespace emblem {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

std::string dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

[[noreturn]] void refuse(const std::string& folder, const std::string& why) {
  throw Error(ErrorCode::kCorruption,
              cat("the data set ", shown_uri(folder), " is not whole: ", why,
                  "; write it again (--force), or remove its ", kDataSetManifest,
                  " to read what is there"));
}

}  // namespace

std::string unfinished_data_set_text() {
  return dump({{"format", kFormat}, {"state", "unfinished"}});
}

std::string data_set_text(const std::vector<DataSetFile>& files) {
  Json list = Json::array();
  for (const DataSetFile& file : files) list.push_back({{"name", file.name}, {"bytes", file.bytes}});
  return dump({{"format", kFormat}, {"state", "complete"}, {"files", list}});
}

void check_data_sets(const std::vector<ObjectInfo>& objects,
                     const std::function<std::string(const ObjectInfo&)>& read) {
  std::map<std::string, int64_t> sizes;
  for (const ObjectInfo& object : objects) sizes[object.uri] = object.bytes;
  const std::string ending = cat("/", kDataSetManifest);
  for (const ObjectInfo& object : objects) {
    if (!object.uri.ends_with(ending)) continue;
    const std::string folder = object.uri.substr(0, object.uri.size() - ending.size());
    try {
      const Json json = Json::parse(read(object));
      if (json.at("state") != "complete")
        refuse(folder, "the program that wrote it has not ended, or failed");
      for (const Json& file : json.at("files")) {
        const std::string name = file.at("name").get<std::string>();
        const auto found = sizes.find(folder + "/" + name);
        if (found == sizes.end()) refuse(folder, name + " is missing");
        const int64_t expected = file.at("bytes").get<int64_t>();
        if (found->second != expected)
          refuse(folder, cat(name, " has ", found->second, " bytes, but ", expected,
                             " were written"));
      }
    } catch (const Json::exception&) {
      refuse(folder, cat("its ", kDataSetManifest, " is damaged"));
    }
  }
}

}  // namespace emblem
