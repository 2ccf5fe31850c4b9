#include "serve/engine/hps/table_sources.h"

#include <map>

#include "core/files/file.h"
#include "model/model.h"

namespace emblem {
namespace {

// The same on every machine that has a copy of the version.
std::string content_of(const Manifest& manifest, const TableSettings& table) {
  std::string content = cat("dim ", table.dim);
  for (const char* name : {"key", "emb_vector"}) {
    const auto file = manifest.files.find(cat("tables/", table.name, "/", name));
    if (file == manifest.files.end()) return "";
    content += cat(" ", name, " ", file->second.bytes, " bytes, checksum ", std::hex,
                   file->second.checksum);
  }
  return content;
}

}  // namespace

std::vector<TableSource> table_sources(const config::PipelineConfig& config,
                                       const FeatureLayout& layout, const Checkpoint& checkpoint,
                                       PartRange parts) {
  std::map<std::string, TableSource> sources;
  const Model shape({}, config, layout, 1, [&](const LookupTables& wanted) {
    for (const TableSettings& table : wanted.tables) {
      sources[table.name] = {
          .name = table.name,
          .folder = checkpoint.file("tables/" + table.name),
          .dim = table.dim,
          .missing = table.missing,
          .seed = table.seed,
          .content = content_of(checkpoint.manifest, table),
          .filter = {.parts = parts, .is_hashed = table.kind == TableKind::kDynamic}};
    }
    return std::unique_ptr<Lookup>();
  });
  std::vector<TableSource> list;
  for (const auto& [table, source] : sources) list.push_back(source);
  return list;
}

ModelId model_id_of(const std::string& name, int64_t version, const std::string& folder) {
  return model_id(name, version, read_text_file(folder + "/manifest.json"));
}

void check_unchanged(const ModelId& id, const std::string& folder) {
  if (model_id_of(id.model, id.version, folder) == id) return;
  throw Error(ErrorCode::kUnavailable, cat(folder, " was replaced while it was read"));
}

}  // namespace emblem
