#include "train/state/saved_tables.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "comm/bytes.h"
#include "core/files/inner_path.h"
#include "embedding/files/table_runs.h"
#include "emblem/error.h"
#include "train/state/whole_rows.h"

namespace emblem {
namespace {

using Json = nlohmann::json;

// Called by the rank of the first columns.
SavedTable save_columns(const Context& context, const Table& table, const std::string& checkpoint,
                        const World& world) {
  const TableShards& shards = world.plan->of(table.settings().name);
  const int writer = shards.columns[0];
  const ExportRows rows = [&](int64_t batch_rows, const auto& take) {
    export_whole_rows(context, *world.ranks, shards, table, batch_rows, writer, take);
  };
  if (world.rank() != writer) {
    rows(rows_per_batch(table), [](const RowBatch&) {});
    return {};
  }
  const std::string folder = table_folder(table);
  SavedTable saved{.rows = table.size()};
  for (const auto& file : save_table(table, rows, checkpoint + "/" + folder))
    saved.files.push_back({folder + "/" + file.name, {file.bytes, file.checksum}});
  return saved;
}

SavedTable save_rows(const Context& context, const Table& table, const std::string& checkpoint,
                     const World& world) {
  const PartRange held = table.settings().held;
  if (table.settings().columns.of > 0) return save_columns(context, table, checkpoint, world);
  const bool is_elsewhere =  // rank 0 saves it
      !world.writes() && world.is_replicated(table.settings().name);
  if (held.count() == 0 || is_elsewhere) return {};
  std::string folder = table_folder(table);
  if (!held.is_everything()) folder += "/" + run_name(world.rank());
  SavedTable saved{.rows = table.size()};
  for (const auto& file : save_table(context, table, checkpoint + "/" + folder))
    saved.files.push_back({folder + "/" + file.name, {file.bytes, file.checksum}});
  return saved;
}

std::string to_text(const std::vector<SavedTable>& tables) {
  Json json = Json::array();
  for (const SavedTable& table : tables) {
    Json files = Json::array();
    for (const auto& [name, facts] : table.files)
      files.push_back({name, facts.bytes, facts.checksum});
    json.push_back({{"rows", table.rows}, {"files", files}});
  }
  return json.dump();
}

void add_tables_of(const World& world, int rank, const std::string& text,
                   const std::string& checkpoint, std::vector<SavedTable>& all) {
  const Json json = Json::parse(text);
  for (size_t t = 0; t < all.size(); ++t) {
    all[t].rows += json[t].at("rows").get<int64_t>();
    for (const Json& file : json[t].at("files")) {
      const FileFacts facts{file[1], file[2]};
      const std::string path = path_below(checkpoint, file[0].get<std::string>());
      std::error_code error;
      if (std::filesystem::file_size(path, error) != facts.bytes || error)
        throw Error(ErrorCode::kUnavailable,
                    cat(name_of_rank(rank, world.ranks->hosts()[static_cast<size_t>(rank)].name),
                        " wrote ", path,
                        ", which rank 0 does not see; model_dir must be a folder "
                        "that all ranks share"));
      all[t].files.push_back({file[0], facts});
    }
  }
}

}  // namespace

std::string table_folder(const Table& table) { return "tables/" + table.settings().name; }

std::vector<SavedTable> save_tables(Learner& learner, const std::string& checkpoint) {
  const World& world = learner.world();
  std::vector<SavedTable> saved;
  for (const Table* table : learner.model().tables())
    saved.push_back(save_rows(learner.context(), *table, checkpoint, world));
  const std::vector<std::string> texts = gather_bytes(*world.ranks, to_text(saved));
  for (size_t rank = 1; rank < texts.size(); ++rank)
    add_tables_of(world, static_cast<int>(rank), texts[rank], checkpoint, saved);
  return saved;
}

}  // namespace emblem
