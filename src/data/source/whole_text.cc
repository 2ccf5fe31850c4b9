#include "data/source/whole_text.h"

#include "core/files/file.h"
#include "data/source/remote_storage.h"
#include "data/source/uri.h"

namespace emblem {

std::string read_whole_text(const std::string& path, const Storage& storage) {
  return is_object_uri(path) ? storage_for(storage, path).read_text(path) : read_text_file(path);
}

}  // namespace emblem
