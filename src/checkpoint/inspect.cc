#include "checkpoint/inspect.h"

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/remote_model_dir.h"
#include "core/text/text.h"
#include "data/source/uri.h"

namespace emblem {
namespace {

std::string bytes_of(const Manifest& manifest, const ManifestTable& table) {
  uint64_t bytes = 0;
  for (const std::string& file : table.files) bytes += manifest.files.at(file).bytes;
  return format_bytes(static_cast<double>(bytes));
}

}  // namespace

bool is_checkpoint(const std::string& path, const Storage& storage) {
  if (is_object_uri(path)) return holds_remote_checkpoints(path, storage_for(storage, path));
  return std::filesystem::exists(path + "/manifest.json") || holds_checkpoints(path);
}

std::string describe_checkpoint(const std::string& path, const Storage& storage) {
  const Checkpoint checkpoint = open_checkpoint(find_checkpoint(path, storage));
  const Manifest& manifest = checkpoint.manifest;
  uint64_t bytes = 0;
  for (const auto& [name, facts] : manifest.files) bytes += facts.bytes;
  std::string text = fmt::format("checkpoint  {}\n", checkpoint.path);
  text += fmt::format("step        {}, epoch {}, row {} of it, by emblem {}\n", manifest.step,
                      manifest.epoch, manifest.position.rows_in_epoch, manifest.emblem_version);
  text += fmt::format("files       {} ({}), all verified\n", manifest.files.size(),
                      format_bytes(static_cast<double>(bytes)));
  for (const auto& [name, value] : manifest.metrics)
    text += fmt::format("metric      {} {}\n", name, format_metric(value));
  int64_t parameters = 0;
  for (const ManifestParameter& parameter : manifest.parameters) {
    int64_t size = 1;
    for (const int64_t extent : parameter.shape) size *= extent;
    parameters += size;
  }
  text += fmt::format("model       {}, {} dense parameters in {} tensors\n", manifest.model,
                      parameters, manifest.parameters.size());
  text += fmt::format("\n{:<28}{:>9}{:>14}{:>6}  {:<6}{:<17}{:>12}\n", "table", "kind", "rows",
                      "dim", "type", "optimizer", "files");
  for (const ManifestTable& table : manifest.tables) {
    text +=
        fmt::format("{:<28}{:>9}{:>14}{:>6}  {:<6}{:<17}{:>12}\n", table.name, table.kind,
                    table.rows, table.dim, table.dtype, table.optimizer, bytes_of(manifest, table));
  }
  return text;
}

}  // namespace emblem
