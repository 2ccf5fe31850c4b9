// SOK's split binary: label.bin, dense.bin and category.bin (one row-major matrix, element
// types in metadata.json), or category_0.bin, category_1.bin, ... (one file per column; label 1
// byte, dense float16 that is already a logarithm, categories as wide as their range needs).
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/text/shallow_json.h"
#include "core/text/text.h"
#include "data/format/binary/binary_decoder.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool is_there(const fs::path& path, const Storage& storage) {
  const std::string text = path.string();
  return is_object_uri(text) ? storage_for(storage, text).find(text).has_value() : fs::exists(path);
}

std::string text_of(const fs::path& path, const Storage& storage) {
  const std::string text = path.string();
  return is_object_uri(text) ? storage_for(storage, text).read_text(text) : read_text_file(text);
}

// The folder's own metadata, or for a test folder that of the train folder next to it.
json find_metadata(const fs::path& folder, const Storage& storage) {
  for (const fs::path& path :
       {folder / "metadata.json", folder.parent_path() / "train/metadata.json",
        folder.parent_path() / "metadata.json"}) {
    if (!is_there(path, storage)) continue;
    json metadata = json::parse(text_of(path, storage), shallow_json, false);
    if (metadata.is_discarded() || !metadata.is_object()) {
      throw Error(ErrorCode::kCorruption, cat(path.string(), " is not a JSON object"));
    }
    return metadata;
  }
  return json::object();
}

ElementType element_type(const json& metadata, const char* key, const char* otherwise,
                         const fs::path& folder) {
  const auto found = metadata.find(key);
  const std::string name = found != metadata.end() && found->is_string() ? found->get<std::string>()
                                                                         : std::string(otherwise);
  return parse_element_type(name, cat(folder.string(), ": metadata.json's ", key));
}

// Adds a file of `columns` elements a record and checks that it has as many records as the others.
void add_table(BinaryPart& part, InputFile file, ElementType type, int64_t columns) {
  const int64_t record_bytes = size_of(type) * columns;
  const int64_t bytes = file.bytes();
  if (part.tables.empty()) part.records = bytes / record_bytes;
  const int64_t expected = part.records * record_bytes;
  if (bytes != expected || bytes % record_bytes != 0) {
    throw Error(ErrorCode::kCorruption,
                cat(file.path(), bytes < expected ? " is truncated" : " does not fit", ": ", bytes,
                    " bytes, expected ", expected, " (", part.records, " records of ", record_bytes,
                    " bytes; see num_dense and num_sparse)"));
  }
  for (int64_t i = 0; i < columns; ++i) {
    part.fields.push_back({static_cast<int>(part.tables.size()), i * size_of(type), type});
  }
  part.tables.push_back({std::move(file), record_bytes});
}

// The width of a column's elements follows from the size of its file.
ElementType width_by_size(const InputFile& file, int64_t records) {
  const int64_t bytes = file.bytes();
  if (bytes == records) return ElementType::kInt8;
  if (bytes == 2 * records) return ElementType::kInt16;
  if (bytes == 4 * records) return ElementType::kInt32;
  throw Error(ErrorCode::kCorruption,
              cat(file.path(), " is truncated or does not fit: ", bytes,
                  " bytes, expected 1, 2 or 4 per record (", records, " records in label.bin)"));
}

BinaryPart open_folder(const fs::path& folder, const DataSource& source) {
  const Storage& storage = source.storage;
  const auto open = [&](const std::string& name) {
    return InputFile((folder / name).string(), storage);
  };
  for (const char* name : {"label.bin", "dense.bin"}) {
    if (is_there(folder / name, storage)) continue;
    const bool above = is_there(folder / "train" / name, storage);
    throw Error(
        ErrorCode::kNotFound,
        cat(folder.string(), " has no ", name,
            "; a SplitDataset folder has label.bin, dense.bin and ",
            "category.bin or category_0.bin, ...",
            above ? cat("; did you mean ", (folder / "train").string(), "?") : std::string()));
  }
  BinaryPart part;
  part.name = folder.string();
  const json metadata = find_metadata(folder, storage);
  if (is_there(folder / "category.bin", storage)) {
    add_table(part, open("label.bin"), element_type(metadata, "label_raw_type", "int32", folder),
              1);
    add_table(part, open("dense.bin"), element_type(metadata, "dense_raw_type", "int32", folder),
              source.num_dense);
    add_table(part, open("category.bin"),
              element_type(metadata, "category_raw_type", "int32", folder), source.num_sparse);
    return part;
  }
  add_table(part, open("label.bin"), ElementType::kUint8, 1);
  add_table(part, open("dense.bin"), ElementType::kFloat16, source.num_dense);
  for (int i = 0; i < source.num_sparse; ++i) {
    InputFile file = open(cat("category_", i, ".bin"));
    const ElementType type = width_by_size(file, part.records);
    add_table(part, std::move(file), type, 1);
  }
  return part;
}

}  // namespace

std::unique_ptr<Decoder> make_split_decoder(const DataSource& source,
                                            const std::vector<ColumnRequest>* requests) {
  const std::vector<ColumnSpec> schema = criteo_schema(source.num_dense, source.num_sparse);
  EMBLEM_REQUIRE(source.num_dense > 0 && source.num_sparse > 0,
                 "a SplitDataset needs num_dense and num_sparse of at least 1");
  std::vector<BinaryPart> parts;
  for (const std::string& item : split(source.input, ',')) {
    std::string path(trim(item));
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    const fs::path folder{path};
    if (!is_object_uri(path) && !fs::is_directory(folder)) {
      throw Error(ErrorCode::kNotFound,
                  cat(folder.string(), fs::exists(folder) ? " is not a folder" : " does not exist",
                      "; a SplitDataset is a folder with label.bin, dense.bin and category.bin"));
    }
    parts.push_back(open_folder(folder, source));
  }
  EMBLEM_REQUIRE(!parts.empty(), "no folders in ", in_quotes(source.input),
                 "; give SplitDataset folders");
  return std::make_unique<BinaryDecoder>(schema, std::move(parts), source, requests,
                                         "a SplitDataset");
}

}  // namespace emblem
