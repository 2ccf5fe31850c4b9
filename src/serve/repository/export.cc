#include "serve/repository/export.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/remote_model_dir.h"
#include "checkpoint/safetensors.h"
#include "config/feature/items.h"
#include "config/feature/matching.h"
#include "config/load/load.h"
#include "config/load/name.h"
#include "config/load/prediction_layout.h"
#include "core/files/file.h"
#include "data/feature/column_types.h"
#include "data/source/uri.h"
#include "embedding/files/table_runs.h"
#include "emblem/error.h"
#include "model/check/check.h"
#include "model/model.h"
#include "remote/remote_folder.h"
#include "remote/unit_snapshot.h"
#include "remote/upload.h"
#include "remote/work_folder.h"
#include "retrieval/index.h"
#include "serve/engine/finite_model.h"
#include "serve/engine/model_options.h"
#include "serve/engine/retrieval/index_servable.h"
#include "serve/engine/retrieval/stored_columns.h"
#include "serve/protocol/model_config.pb.h"
#include "serve/repository/repository.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDenseFile = "dense.safetensors";
constexpr const char* kConfigFile = "pipeline.config";
constexpr std::string_view kTraining = "optimizer.";     // prefix of what only training needs
constexpr std::string_view kAverage = "optimizer.ema.";  // prefix of the average of a parameter

// A folder under a hidden name that is removed unless it gets its own.
class NewFolder {
 public:
  explicit NewFolder(std::string path) : path_(std::move(path)) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    make_folders(path_);
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  void become(const std::string& name) {
    rename_path(path_, name);
    path_.clear();
  }

 private:
  std::string path_;
};

// Works for tables of any size: the same bytes under a second name, or a copy on another file
// system.
void link_or_copy(const std::string& from, const std::string& to) {
  make_folders(fs::path(to).parent_path().string());
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (!error) return;
  const MappedFile file(from);
  FileWriter copy(to);
  copy.write(file.bytes().data(), file.bytes().size());
  copy.finish();
}

bool is_for_inference(const std::string& file) {
  const std::string name = fs::path(file).filename();
  return name == "key" || name == "emb_vector" || name == "table.json" || file == kConfigFile ||
         file.starts_with("assets/");
}

// Whether the moving average of dense parameters is served in their place.
bool uses_average(const Checkpoint& checkpoint) {
  const config::PipelineConfig config = load_stored_pipeline(checkpoint.path);
  const config::ExportConfig& settings = config.export_config();
  return settings.has_use_dense_ema() ? settings.use_dense_ema()
                                      : config.train_config().dense_optimizer().has_ema();
}

// What a model reads of a checkpoint.
struct ModelParts {
  std::set<std::string> tables, tensors;
};

ModelParts parts_of(config::PipelineConfig config) {
  check_pipeline(config);
  ModelParts parts;
  const FeatureLayout layout = prediction_layout(layout_of(config), config.model_config());
  Model shape({}, config, layout, 1, [&](const LookupTables& wanted) {
    for (const TableSettings& table : wanted.tables) parts.tables.insert(table.name);
    return std::unique_ptr<Lookup>();
  });
  for (const Parameter& one : shape.graph().parameter_list()) parts.tensors.insert(one.name);
  for (const Parameter& one : shape.graph().statistic_list())
    parts.tensors.insert("statistics." + one.name);
  return parts;
}

// The part of a checkpoint that computes vectors of users.
ModelParts user_parts(const Checkpoint& checkpoint) {
  config::PipelineConfig config = load_stored_pipeline(checkpoint.path);
  require_towers(config.model_config(), "an index");
  remove_sampler(&config);
  remove_item_tower(config.mutable_model_config());
  return parts_of(std::move(config));
}

// `only`: the parts that are written; null: all.
FileFacts write_dense(const Checkpoint& checkpoint, const LayerRanges* int8, const ModelParts* only,
                      const std::string& to) {
  const SafetensorsFile from(checkpoint.file(kDenseFile));
  std::vector<TensorRef> tensors;
  for (const TensorRef& tensor : from.tensors()) {
    const bool is_written = only == nullptr || only->tensors.contains(tensor.name);
    if (is_written && !tensor.name.starts_with(kTraining) && !is_input_range(tensor))
      tensors.push_back(tensor);
  }
  if (uses_average(checkpoint)) {
    for (TensorRef& tensor : tensors) {
      const std::string average = cat(kAverage, tensor.name);
      for (const TensorRef& one : from.tensors())
        if (one.name == average) tensor.data = one.data;
    }
  }
  if (int8 != nullptr) {
    for (TensorRef& tensor : tensors_of(*int8)) tensors.push_back(std::move(tensor));
  }
  const auto written = write_safetensors(to, tensors);
  return {written.bytes, written.checksum};
}

// Links the configuration, or writes another: where that one is of int8 and the model is not to be,
// or the reverse, and without the plan of the ranks that trained it, which changes nothing of it.
FileFacts write_config(const Checkpoint& checkpoint, bool is_int8, bool has_index,
                       const std::string& to) {
  config::PipelineConfig config = load_stored_pipeline(checkpoint.path);
  const bool has_precision = (config.train_config().mixed_precision() == "INT8") == is_int8;
  const bool is_sampled = remove_sampler(&config);
  if (has_precision && !is_sampled && !has_index && !config.train_config().has_plan_path()) {
    link_or_copy(checkpoint.file(kConfigFile), to);
    return checkpoint.manifest.files.at(kConfigFile);
  }
  config.mutable_train_config()->clear_plan_path();
  if (has_index) remove_item_tower(config.mutable_model_config());
  if (!has_precision) config.mutable_train_config()->set_mixed_precision(is_int8 ? "INT8" : "FP32");
  write_text_file_atomically(to, to_stored_text(config));
  return facts_of_file(to);
}

// Throws when `out` is not the folder of a model, existing or new.
void check_place(const std::string& out) {
  const fs::path parent = fs::path(out).parent_path().empty() ? "." : fs::path(out).parent_path();
  const std::string name = fs::path(out).filename();
  switch (folder_kind(out)) {
    case FolderKind::kRepository:
      throw Error(ErrorCode::kInvalidArgument,
                  cat(out, " is a model repository; give --out ", out, "/NAME, a model's folder"));
    case FolderKind::kModelDir:
      throw Error(ErrorCode::kInvalidArgument,
                  cat(out,
                      " is a model directory of training; give --out REPOSITORY/NAME, a "
                      "folder for models to serve"));
    case FolderKind::kCheckpoint:
      throw Error(ErrorCode::kInvalidArgument,
                  folder_kind(parent) == FolderKind::kModel
                      ? cat(out, " is a version of the model ", parent.string(), "; give --out ",
                            parent.string(), " to add the next one")
                      : cat(out,
                            " is a checkpoint; give --out REPOSITORY/NAME, a folder for "
                            "models to serve"));
    case FolderKind::kModel:
    case FolderKind::kOther:
      break;
  }
  EMBLEM_REQUIRE(!fs::exists(parent / "config.pbtxt"), out, " is inside the model ",
                 parent.string(), "; give --out ", parent.string(),
                 version_of(name) > 0 ? cat(" --version ", name) : "", " to add a version to it");
  EMBLEM_REQUIRE(folder_kind(parent) != FolderKind::kCheckpoint, out, " is inside ",
                 parent.string(),
                 ", a checkpoint or version of a model; give --out REPOSITORY/NAME");
}

int64_t next_version(const std::string& out, int64_t asked) {
  const fs::path path(out);
  int64_t newest = 0;
  if (fs::is_directory(path)) {
    const auto there = Repository(path.parent_path().empty() ? "." : path.parent_path().string())
                           .versions(path.filename().string());
    for (const int64_t version : there) {
      EMBLEM_REQUIRE(
          version != asked, out, "/", version,
          " exists already; choose another --version, or give none for the next free one");
    }
    if (!there.empty()) newest = there.back();
  }
  EMBLEM_REQUIRE(asked >= 0, "version ", asked, " is not valid; expected a number above 0");
  EMBLEM_REQUIRE(asked > 0 || newest < std::numeric_limits<int64_t>::max(), out, "/", newest,
                 " has the highest version number; choose a free one with --version");
  return asked > 0 ? asked : newest + 1;
}

void check_name(const std::string& name) {
  EMBLEM_REQUIRE(is_model_name(name), "'", name, "' is not a valid model name (expected up to ",
                 kLongestName, " letters, digits, '.', '_' and '-')");
}

// Items that are searched, where a version has them.
struct VersionItems {
  const Index* index = nullptr;
  const StoredColumns* columns = nullptr;
};

// Adds the files of the folder `part` of a version.
void add_files(const std::string& folder, const std::string& part, Manifest& manifest) {
  for (const auto& entry : fs::directory_iterator(folder + "/" + part)) {
    const std::string name = cat(part, "/", entry.path().filename().string());
    manifest.files[name] = facts_of_file(folder + "/" + name);
  }
}

// Saves the items in `folder`, and adds their files to those of the manifest.
void write_items(const VersionItems& items, const std::string& folder, Manifest& manifest) {
  items.index->save(folder + "/" + kIndexFolder);
  add_files(folder, kIndexFolder, manifest);
  if (items.columns == nullptr || items.columns->names().empty()) return;
  items.columns->save(folder + "/" + kColumnsFolder);
  add_files(folder, kColumnsFolder, manifest);
}

ExportedModel export_to_folder(const std::string& checkpoint_path, const std::string& out,
                               int64_t asked, const LayerRanges* int8, const VersionItems& items) {
  const std::string name = fs::path(out).filename();
  check_name(name);
  check_place(out);
  const Checkpoint checkpoint = open_checkpoint(checkpoint_path);
  require_finite_model(checkpoint);
  ExportedModel result{.step = checkpoint.manifest.step};
  result.version = next_version(out, asked);
  std::optional<ModelParts> only;
  if (items.index != nullptr) only = user_parts(checkpoint);
  make_folders(out);

  NewFolder folder(cat(out, "/.tmp-", result.version, "-", ::getpid()));
  Manifest manifest = checkpoint.manifest;
  manifest.files.clear();
  manifest.positions.clear();
  std::set<std::string> left_out;  // files of tables that the model does not read
  for (const ManifestTable& table : checkpoint.manifest.tables)
    if (only && !only->tables.contains(table.name))
      left_out.insert(table.files.begin(), table.files.end());
  if (only) {
    std::erase_if(manifest.tables,
                  [&](const ManifestTable& table) { return !only->tables.contains(table.name); });
    std::erase_if(manifest.parameters, [&](const ManifestParameter& parameter) {
      return !only->tensors.contains(parameter.name);
    });
  }
  std::set<std::string> of_runs;  // files that are merged
  for (ManifestTable& table : manifest.tables) {
    const std::string name = "tables/" + table.name;
    if (!has_runs(checkpoint.file(name))) continue;
    of_runs.insert(table.files.begin(), table.files.end());
    table.files.clear();
    for (const WrittenFile& file : merge_runs(checkpoint.file(name), folder.file(name))) {
      table.files.push_back(cat(name, "/", file.name));
      manifest.files[table.files.back()] = {file.bytes, file.checksum};
    }
  }
  for (const auto& [file, facts] : checkpoint.manifest.files) {
    if (!is_for_inference(file) || of_runs.contains(file) || left_out.contains(file)) continue;
    if (file == kConfigFile) {
      manifest.files[file] =
          write_config(checkpoint, int8 != nullptr, only.has_value(), folder.file(file));
      continue;
    }
    link_or_copy(checkpoint.file(file), folder.file(file));
    manifest.files[file] = facts;
  }
  manifest.files[kDenseFile] =
      write_dense(checkpoint, int8, only ? &*only : nullptr, folder.file(kDenseFile));
  if (items.index != nullptr) write_items(items, folder.path(), manifest);
  for (ManifestTable& table : manifest.tables)
    std::erase_if(table.files, [](const std::string& file) { return !is_for_inference(file); });
  for (const auto& [file, facts] : manifest.files) result.bytes += facts.bytes;
  write_text_file_atomically(folder.file("manifest.json"), manifest_text(manifest));

  const auto servable = describe_version(folder.path());
  const config::PipelineConfig pipeline = load_stored_pipeline(checkpoint.path);
  warn_of_unknown_types(checkpoint.path, pipeline.data_config(),
                        prediction_layout(layout_of(pipeline), pipeline.model_config()));
  result.folder = cat(out, "/", result.version);
  folder.become(result.folder);
  sync_directory(out);
  const std::string config = out + "/config.pbtxt";
  if (!fs::exists(config)) {
    write_text_file_atomically(config, to_text(default_model_config(name, *servable)));
    result.wrote_config = true;
  }
  return result;
}

// ---- to a remote store ----

int64_t next_remote_version(RemoteStorage& storage, const std::string& out, int64_t asked) {
  int64_t newest = 0;
  for (const std::string& name : storage.list(out, ListDepth::kDirect).folders) {
    const int64_t version = version_of(name);
    EMBLEM_REQUIRE(version < 0 || version != asked, out, "/", version,
                   " exists already; choose another --version, or give none for the next free one");
    newest = std::max(newest, version);
  }
  return asked > 0 ? asked : newest + 1;
}

// Manifests last: who reads the store sees whole versions only.
void upload_folder(RemoteStorage& storage, const std::string& folder, const std::string& to,
                   StoreLock& lock) {
  const UploadCalls calls{.before = lock.before_write(), .after = nullptr};
  std::vector<std::string> names = visible_files(folder);
  const auto last = std::stable_partition(names.begin(), names.end(), [](const auto& name) {
    return fs::path(name).filename() != kUnitManifest;
  });
  const std::vector<std::string> contents(names.begin(), last);
  upload_files(storage, folder, contents, to, calls);
  require_uploaded(storage, folder, contents, to);
  upload_files(storage, folder, {last, names.end()}, to, calls);
  require_uploaded(storage, folder, names, to);
}

// `out` is the address of a model's folder: s3://BUCKET/REPOSITORY/NAME.
ExportedModel export_to_store(const std::string& checkpoint, const std::string& out, int64_t asked,
                              const LayerRanges* int8, const VersionItems& items,
                              RemoteStorage& storage, StoreLockOptions options) {
  const ObjectUri uri = parse_object_uri(out);
  const size_t slash = uri.key.rfind('/');
  const std::string name = slash == std::string::npos ? uri.key : uri.key.substr(slash + 1);
  EMBLEM_REQUIRE(!storage.find(join_uri(out, "manifest.json")), out,
                 " is a checkpoint or a version of a model; give --out REPOSITORY/NAME, a folder "
                 "for models to serve");
  EMBLEM_REQUIRE(
      !holds_remote_checkpoints(out, storage), out,
      " is a model directory of training; give --out REPOSITORY/NAME, a folder for models "
      "to serve");
  options.user = "export";
  options.remedy = "wait until it has ended, and export again";
  StoreLock lock(storage, out, options);  // two exports would choose the same version
  const int64_t version = next_remote_version(storage, out, asked);
  const WorkFolder work(storage, out);
  ExportedModel model =
      export_to_folder(checkpoint, work.path() + "/" + name, version, int8, items);
  if (storage.find(join_uri(out, "config.pbtxt"))) {  // stays as it is
    remove_path(work.path() + "/" + name + "/config.pbtxt");
    model.wrote_config = false;
  }
  upload_folder(storage, work.path() + "/" + name, out, lock);
  model.folder = cat(out, "/", version);
  return model;
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

ExportedModel export_model(const std::string& checkpoint, const std::string& out_path,
                           int64_t version, const LayerRanges* int8, const Storage& storage,
                           const StoreLockOptions& lock, const Index* index,
                           const StoredColumns* columns) {
  const VersionItems items{index, columns};
  const std::string out = without_slashes(out_path);
  return is_object_uri(out) ? export_to_store(checkpoint, out, version, int8, items,
                                              storage_for(storage, out), lock)
                            : export_to_folder(checkpoint, out, version, int8, items);
}

void check_model_folder(const std::string& out_path, int64_t version) {
  const std::string out = without_slashes(out_path);
  check_name(out.substr(out.rfind('/') + 1));
  if (is_object_uri(out)) return;  // what is there is known once it is locked
  check_place(out);
  next_version(out, version);
}

}  // namespace emblem
