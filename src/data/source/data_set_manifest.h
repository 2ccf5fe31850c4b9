// data/source/data_set_manifest.h - which objects a data set consists of, where Emblem wrote it to
// a store: the object .dataset.json in each of its folders. It is written twice: before the first
// object of the data set, which says that the rest is still to come, and after the last one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/source/objects/object_store.h"

namespace emblem {

inline constexpr const char* kDataSetManifest = ".dataset.json";

struct DataSetFile {
  std::string name;  // in its folder
  int64_t bytes = 0;
  uint64_t checksum = 0;  // core/math/checksum.h
};

std::string unfinished_data_set_text();
std::string data_set_text(const std::vector<DataSetFile>& files);

// For each manifest among `objects` (a listing): throws kCorruption where its data set was not
// written to the end, and where an object of it is missing or has another size. `read` returns the
// content of an object. Folders without a manifest are not ours and pass. Sets the checksums of the
// objects, which older manifests do not have.
void check_data_sets(std::vector<ObjectInfo>& objects,
                     const std::function<std::string(const ObjectInfo&)>& read);

}  // namespace emblem
