#include "train/state/input_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "config/feature/items.h"
#include "core/math/checksum.h"
#include "core/math/hash.h"
#include "core/text/text.h"
#include "data/items/id_file.h"
#include "data/source/remote_storage.h"
#include "data/source/uri.h"
#include "data/source/whole_text.h"
#include "kafka/address.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr std::streamoff kEndBytes = 65536;

void add(const std::string& path, int64_t bytes, std::optional<uint64_t> checksum,
         InputFiles& files) {
  // Not known of one of them: of none.
  const bool is_known = checksum && (files.files == 0 || files.content);
  files.content = is_known
                      ? std::optional(hash_string(cat(files.content.value_or(0), " ", *checksum)))
                      : std::nullopt;
  ++files.files;
  files.bytes += bytes;
  // Folders may be moved, as when a run continues on another machine.
  files.names = hash_string(cat(files.names, " ", path.substr(path.rfind('/') + 1), " ", bytes));
}

}  // namespace

uint64_t checksum_of_ends(const std::string& path, uint64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(kEndBytes);
  Checksum checksum;
  const auto size = static_cast<std::streamoff>(bytes);
  for (const std::streamoff begin : {std::streamoff{0}, std::max(size - kEndBytes, kEndBytes)}) {
    file.clear();
    if (!file.seekg(begin)) continue;
    file.read(piece.data(), kEndBytes);
    checksum.add(piece.data(), static_cast<size_t>(file.gcount()));
  }
  return checksum.value();
}

std::optional<InputFiles> input_files_of(const config::PipelineConfig& config,
                                         const Storage& storage) {
  const std::string& input = config.train_input_path();
  if (input.empty() || is_kafka_address(input)) return std::nullopt;
  InputFiles files;
  for (const std::string& item : split(input, ',')) {
    const std::string name(trim(item));
    if (is_object_uri(name)) {
      for (const ObjectInfo& object : storage_for(storage, name).expand(name))
        add(object.uri, object.bytes, std::nullopt, files);
      continue;
    }
    for (const std::string& path : expand_inputs(name, storage)) {
      std::error_code error;
      const auto bytes = fs::file_size(path, error);
      if (error) return std::nullopt;
      add(path, static_cast<int64_t>(bytes), checksum_of_ends(path, bytes), files);
    }
  }
  return files;
}

std::optional<InputFiles> sampler_files_of(const config::PipelineConfig& config,
                                           const Storage& storage) {
  const std::vector<std::string> paths = item_files(config);
  if (paths.empty()) return std::nullopt;
  const Storage with = storage_of_files(config.data_config(), paths, storage);
  InputFiles files;
  for (const std::string& path : paths) {
    const std::string content = read_whole_text(path, with);
    add(path, std::ssize(content), checksum_of(content), files);
  }
  return files;
}

bool are_other_files(const InputFiles& then, const InputFiles& now) {
  return then.files != now.files || then.bytes != now.bytes || then.names != now.names ||
         (then.content && now.content && *then.content != *now.content);
}

std::string to_text(const InputFiles& files) {
  return cat(files.files, files.files == 1 ? " file" : " files", " with ", files.bytes, " bytes");
}

}  // namespace emblem
