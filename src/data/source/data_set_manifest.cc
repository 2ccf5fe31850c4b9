#include "data/source/data_set_manifest.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/math/checksum.h"
#include "core/text/shallow_json.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kManifestFormat = 1;

std::string dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

[[noreturn]] void refuse(const std::string& folder, const std::string& why) {
  throw Error(ErrorCode::kCorruption, cat("the data set ", shown_uri(folder), " is not whole: ",
                                          why, "; write it again (--force), or remove its ",
                                          kDataSetManifest, " to read what is there"));
}

}  // namespace

std::string unfinished_data_set_text() {
  return dump({{"format", kManifestFormat}, {"state", "unfinished"}});
}

std::string data_set_text(const std::vector<DataSetFile>& files) {
  Json list = Json::array();
  for (const DataSetFile& file : files)
    list.push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"checksum", checksum_digits(file.checksum)}});
  return dump({{"format", kManifestFormat}, {"state", "complete"}, {"files", list}});
}

void check_data_sets(std::vector<ObjectInfo>& objects,
                     const std::function<std::string(const ObjectInfo&)>& read) {
  std::map<std::string, ObjectInfo*> by_address;
  for (ObjectInfo& object : objects) by_address[object.uri] = &object;
  const std::string ending = cat("/", kDataSetManifest);
  for (const ObjectInfo& object : objects) {
    if (!object.uri.ends_with(ending)) continue;
    const std::string folder = object.uri.substr(0, object.uri.size() - ending.size());
    try {
      const Json json = Json::parse(read(object), shallow_json);
      if (json.at("state") != "complete")
        refuse(folder, "the program that wrote it has not ended, or failed");
      for (const Json& file : json.at("files")) {
        const std::string name = file.at("name").get<std::string>();
        const auto found = by_address.find(folder + "/" + name);
        if (found == by_address.end()) refuse(folder, name + " is missing");
        const int64_t expected = file.at("bytes").get<int64_t>();
        const int64_t bytes = found->second->bytes;
        if (bytes != expected)
          refuse(folder, cat(name, " has ", bytes, " bytes, but ", expected, " were written"));
        found->second->checksum = file.value("checksum", "");
      }
    } catch (const Json::exception&) {
      refuse(folder, cat("its ", kDataSetManifest, " is damaged"));
    }
  }
}

}  // namespace emblem
