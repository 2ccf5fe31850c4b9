#include "train/state/input_files.h"

#include <filesystem>

#include "core/math/hash.h"
#include "core/text/text.h"
#include "data/source/remote_storage.h"
#include "data/source/uri.h"
#include "kafka/address.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

void add(const std::string& path, int64_t bytes, InputFiles& files) {
  ++files.files;
  files.bytes += bytes;
  // Folders may be moved, as when a run continues on another machine.
  files.names = hash_string(cat(files.names, " ", path.substr(path.rfind('/') + 1), " ", bytes));
}

}  // namespace

std::optional<InputFiles> input_files_of(const config::PipelineConfig& config,
                                         const Storage& storage) {
  const std::string& input = config.train_input_path();
  if (input.empty() || is_kafka_address(input)) return std::nullopt;
  InputFiles files;
  for (const std::string& item : split(input, ',')) {
    const std::string name(trim(item));
    if (is_object_uri(name)) {
      for (const ObjectInfo& object : storage_for(storage, name).expand(name))
        add(object.uri, object.bytes, files);
      continue;
    }
    for (const std::string& path : expand_inputs(name, storage)) {
      std::error_code error;
      const auto bytes = fs::file_size(path, error);
      if (error) return std::nullopt;
      add(path, static_cast<int64_t>(bytes), files);
    }
  }
  return files;
}

std::string to_text(const InputFiles& files) {
  return cat(files.files, files.files == 1 ? " file" : " files", " with ", files.bytes, " bytes");
}

}  // namespace emblem
