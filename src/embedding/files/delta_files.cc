#include "embedding/files/delta_files.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/load/name.h"
#include "core/files/file.h"
#include "core/files/inner_path.h"
#include "core/math/checksum.h"
#include "core/math/finite.h"
#include "core/text/json_error.h"
#include "core/text/parse_number.h"
#include "core/text/shallow_json.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "delta-", kUnfinished = ".writing-", kRemoving = ".removing-";

std::string name_of(int64_t sequence) {
  const std::string digits = std::to_string(sequence);
  return cat(kPrefix, std::string(digits.size() < 12 ? 12 - digits.size() : 0, '0'), digits);
}

std::optional<int64_t> sequence_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  const auto sequence = parse_number<int64_t>(name);
  if (!sequence || *sequence < 1) return {};
  return sequence;
}

std::vector<fs::path> entries_of(const std::string& root) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error))
    entries.push_back(at->path());
  if (error && error != std::errc::no_such_file_or_directory)
    throw Error(ErrorCode::kUnavailable,
                cat("cannot read the folder ", root, ": ", error.message()));
  return entries;
}

struct Columns {
  Columns(const std::string& folder, int64_t dim)
      : table{.dim = dim}, keys(folder + "/key"), rows(folder + "/emb_vector") {}

  void write(std::span<const int64_t> some, std::span<const float> their_rows) {
    keys.write(some.data(), some.size_bytes());
    rows.write(their_rows.data(), their_rows.size_bytes());
    table.rows += static_cast<int64_t>(some.size());
  }

  DeltaTable table;
  FileWriter keys, rows;
};

// A flipped bit in the name of a key must not make it one that is ignored.
void check_keys(const nlohmann::json& json, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw std::invalid_argument(cat("unknown key ", printable(key)));
  }
}

DeltaTable table_from(const nlohmann::json& json, bool has_checksums) {
  check_keys(json, {"name", "dim", "rows", "key_checksum", "emb_vector_checksum"});
  DeltaTable table{.name = json.at("name"), .dim = json.at("dim"), .rows = json.at("rows")};
  if (has_checksums)
    table.checksums = {parse_checksum_digits(json.at("key_checksum")),
                       parse_checksum_digits(json.at("emb_vector_checksum"))};
  return table;
}

DeltaManifest manifest_from(const std::string& text) {
  const auto json = nlohmann::json::parse(text, shallow_json);
  check_keys(json, {"sequence", "checksum", "created_unix_ms", "tables", "stream_offsets",
                    "step_begin_unix_ms", "step_end_unix_ms"});
  const bool has_checksums = json.contains("checksum");
  if (has_checksums && !has_valid_self_checksum(text))
    throw std::invalid_argument("its checksum does not match its content");
  DeltaManifest manifest{.sequence = json.at("sequence"),
                         .created_unix_ms = json.at("created_unix_ms")};
  for (const auto& table : json.at("tables"))
    manifest.tables.push_back(table_from(table, has_checksums));
  if (json.contains("stream_offsets")) {
    manifest.origin = {json.at("stream_offsets"), json.at("step_begin_unix_ms"),
                       json.at("step_end_unix_ms")};
  }
  return manifest;
}

void check_file(const std::string& path, uint64_t wanted) {
  const MappedFile file(path);
  const uint64_t checksum = checksum_of(file.bytes().data(), file.bytes().size());
  if (checksum == wanted) return;
  throw Error(ErrorCode::kCorruption,
              cat(path, " is damaged: its checksum is ", checksum_digits(checksum),
                  ", but the manifest says ", checksum_digits(wanted),
                  "; copy the delta again, or remove its folder to continue without it"));
}

}  // namespace

std::vector<DeltaFolder> list_deltas(const std::string& root) {
  std::vector<DeltaFolder> deltas;
  for (const fs::path& path : entries_of(root)) {
    if (const auto sequence = sequence_of(path.filename().string())) {
      deltas.push_back({*sequence, path.string()});
    }
  }
  std::sort(deltas.begin(), deltas.end(),
            [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return deltas;
}

void remove_unfinished_deltas(const std::string& root) {
  std::error_code ignored;
  for (const fs::path& path : entries_of(root)) {
    if (path.filename().string().starts_with(kUnfinished)) fs::remove_all(path, ignored);
  }
}

void remove_deltas(const std::string& root, int64_t last) {
  for (const DeltaFolder& delta : list_deltas(root)) {
    if (delta.sequence > last) break;
    rename_path(delta.path, cat(root, "/", kRemoving, name_of(delta.sequence)));
  }
  for (const fs::path& path : entries_of(root)) {  // also of a process that was killed here
    if (path.filename().string().starts_with(kRemoving)) remove_path(path.string());
  }
}

DeltaManifest read_delta_manifest(const DeltaFolder& delta) {
  const std::string path = delta.path + "/manifest.json";
  DeltaManifest manifest;
  try {
    manifest = manifest_from(read_text_file(path));
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCorruption,
                cat(path, ": does not describe a delta: ", json_problem(error.what())));
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorCode::kCorruption, cat(path, " is damaged: ", error.what()));
  }
  for (const DeltaTable& table : manifest.tables) {
    const std::string problem = name_problem(table.name, kLongestTableName);
    if (!problem.empty())
      throw Error(ErrorCode::kCorruption,
                  cat(path, ": table name \"", printable(table.name.substr(0, 200)),
                      "\" is not valid: it ", problem));
  }
  if (manifest.sequence != delta.sequence) {
    throw Error(ErrorCode::kCorruption, cat(path, ": the sequence is ", manifest.sequence,
                                            ", but the folder's name says ", delta.sequence));
  }
  return manifest;
}

void check_delta_table(const DeltaFolder& delta, const DeltaTable& table) {
  if (!table.checksums) return;
  check_file(cat(delta.path, "/", table.name, "/key"), table.checksums->keys);
  check_file(cat(delta.path, "/", table.name, "/emb_vector"), table.checksums->rows);
}

struct DeltaWriter::State {
  std::string root, temporary;
  int64_t sequence;
  std::map<std::string, std::unique_ptr<Columns>> tables;
};

DeltaWriter::DeltaWriter(std::string root, int64_t sequence) : state_(std::make_unique<State>()) {
  EMBLEM_REQUIRE(sequence >= 1, "delta: a sequence number of ", sequence, "; they begin at 1");
  const std::string path = cat(root, "/", name_of(sequence));
  std::error_code ignored;
  EMBLEM_REQUIRE(!fs::exists(path, ignored), path, " exists already; use the next sequence number");
  state_->temporary = cat(root, "/", kUnfinished, name_of(sequence));
  state_->root = std::move(root);
  state_->sequence = sequence;
  remove_path(state_->temporary);  // left by a writer that was killed
  make_folders(state_->temporary);
}

DeltaWriter::~DeltaWriter() {
  if (state_ == nullptr) return;
  std::error_code error;
  fs::remove_all(state_->temporary, error);
}

int64_t DeltaWriter::add(const std::string& table, int64_t dim, std::span<const int64_t> keys,
                         std::span<const float> rows) {
  EMBLEM_REQUIRE(name_problem(table, kLongestTableName).empty(), "delta: \"", printable(table),
                 "\" cannot be the name of a folder");
  EMBLEM_REQUIRE(keys.size() * static_cast<size_t>(dim) == rows.size(), "delta, table ", table,
                 ": ", keys.size(), " keys of dimension ", dim, " do not fit ", rows.size(),
                 " floats");
  auto& columns = state_->tables[table];
  if (columns == nullptr) {
    const std::string folder = path_below(state_->temporary, table);
    make_folders(folder);
    columns = std::make_unique<Columns>(folder, dim);
  }
  EMBLEM_REQUIRE(columns->table.dim == dim, "delta, table ", table, ": rows of dimension ", dim,
                 " after rows of dimension ", columns->table.dim);
  if (are_finite(rows)) {
    columns->write(keys, rows);
    return 0;
  }
  int64_t refused = 0;
  const auto width = static_cast<size_t>(dim);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto row = rows.subspan(i * width, width);
    if (are_finite(row))
      columns->write(keys.subspan(i, 1), row);
    else
      ++refused;
  }
  return refused;
}

std::string DeltaWriter::finish(const DeltaOrigin& origin) {
  using namespace std::chrono;
  const auto now = system_clock::now().time_since_epoch();
  nlohmann::ordered_json json = {{"sequence", state_->sequence},
                                 {"checksum", no_checksum()},
                                 {"created_unix_ms", duration_cast<milliseconds>(now).count()},
                                 {"tables", nlohmann::ordered_json::array()}};
  for (auto& [name, columns] : state_->tables) {
    columns->keys.finish();
    columns->rows.finish();
    sync_directory(cat(state_->temporary, "/", name));
    json["tables"].push_back({{"name", name},
                              {"dim", columns->table.dim},
                              {"rows", columns->table.rows},
                              {"key_checksum", checksum_digits(columns->keys.checksum())},
                              {"emb_vector_checksum", checksum_digits(columns->rows.checksum())}});
  }
  if (!origin.stream_offsets.empty()) {
    json["stream_offsets"] = origin.stream_offsets;
    json["step_begin_unix_ms"] = origin.step_begin_unix_ms;
    json["step_end_unix_ms"] = origin.step_end_unix_ms;
  }
  FileWriter manifest(state_->temporary + "/manifest.json");
  manifest.write(set_self_checksum(json.dump(2) + "\n"));
  manifest.finish();
  sync_directory(state_->temporary);
  const std::string path = cat(state_->root, "/", name_of(state_->sequence));
  rename_path(state_->temporary, path);
  sync_directory(state_->root);
  state_.reset();
  return path;
}

}  // namespace emblem
