// HugeCTR Raw: records of 32-bit words, label | dense | categories, without a header.
#include "data/format/binary/binary_decoder.h"
#include "data/format/rows/files_without_rows.h"
#include "data/format/text/text_file.h"
#include "data/source/remote_storage.h"
#include "emblem/error.h"

namespace emblem {

std::unique_ptr<Decoder> make_raw_decoder(const DataSource& source,
                                          const std::vector<ColumnRequest>* requests) {
  const std::vector<ColumnSpec> schema = criteo_schema(source.num_dense, source.num_sparse);
  const auto record_bytes = static_cast<int64_t>(4 * schema.size());
  std::vector<BinaryPart> parts;
  std::vector<InputFile> files =
      open_input_files(expand_inputs(source.input, source.storage), source.storage);
  FilesWithoutRows without_rows(source.input);
  for (InputFile& file : files) {
    if (without_rows.add_if_empty(file)) continue;
    BinaryPart part;
    const std::string path = part.name = file.path();
    part.tables.push_back({std::move(file), record_bytes});
    require_uncompressed(part.tables[0].file);
    const int64_t bytes = part.tables[0].file.bytes();
    if (bytes % record_bytes != 0) {
      throw Error(
          ErrorCode::kCorruption,
          cat(path, " is truncated: ", bytes, " bytes are ", bytes / record_bytes, " records of ",
              record_bytes, " bytes and ", bytes % record_bytes,
              " bytes more; expected a multiple of ", record_bytes, " (label, ", source.num_dense,
              " dense, ", source.num_sparse, " categories; see num_dense and num_sparse)"));
    }
    part.records = bytes / record_bytes;
    for (size_t i = 0; i < schema.size(); ++i) {
      part.fields.push_back({0, static_cast<int64_t>(4 * i), ElementType::kInt32});
    }
    parts.push_back(std::move(part));
  }
  without_rows.finish(files.size());
  EMBLEM_REQUIRE(!parts.empty(), "no files in ", in_quotes(source.input), "; give Raw files");
  return std::make_unique<BinaryDecoder>(schema, std::move(parts), source, requests,
                                         "a RawDataset");
}

}  // namespace emblem
