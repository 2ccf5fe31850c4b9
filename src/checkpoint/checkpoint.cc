#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "checkpoint/names.h"
#include "checkpoint/remote_model_dir.h"
#include "core/files/file.h"
#include "core/files/inner_path.h"
#include "core/system/log.h"
#include "data/source/uri.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifestName = "manifest.json";

struct Found {
  CheckpointName name;
  std::string path;
};

// Everything in a model dir that has a checkpoint's name, best first: high steps, and of one step
// the finished before the replaced. Unfinished ones are skipped.
std::vector<Found> candidates(const std::string& model_dir) {
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator entry(model_dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = parse_checkpoint_name(entry->path().filename().string());
    std::error_code ignored;
    if (!name || name->state == CheckpointState::kUnfinished || !entry->is_directory(ignored))
      continue;
    found.push_back({*name, model_dir + "/" + entry->path().filename().string()});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tuple(-a.name.step, a.name.state, a.path) <
           std::tuple(-b.name.step, b.name.state, b.path);
  });
  return found;
}

bool has_manifest(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path + "/" + kManifestName, ignored);
}

[[noreturn]] void reject(const std::string& checkpoint, const std::string& why) {
  throw Error(ErrorCode::kCorruption, cat("checkpoint ", checkpoint, " is damaged: ", why));
}

void check_size(const std::string& checkpoint, const std::string& name, uint64_t expected) {
  const std::string path = checkpoint + "/" + name;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) reject(checkpoint, cat("file ", name, " is missing"));
  const uint64_t bytes = fs::file_size(path, error);
  if (error) reject(checkpoint, cat("file ", name, " cannot be read: ", error.message()));
  if (bytes == expected) return;
  reject(checkpoint, cat("file ", name, " has ", bytes, " bytes, but ", expected, " were written",
                         bytes < expected ? " (truncated)" : ""));
}

// Why a checkpoint of a model dir cannot be used; empty when it can.
std::string problem_of(const Found& found) {
  try {
    const int64_t step = read_manifest(found.path).step;
    return step == found.name.step ? "" : cat(found.path, " holds a checkpoint of step ", step);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::string Checkpoint::file(const std::string& name) const { return path_below(path, name); }

Manifest read_manifest(const std::string& checkpoint) {
  const std::string path = checkpoint + "/" + kManifestName;
  return parse_manifest(read_text_file(path), path);
}

void update_manifest(const std::string& checkpoint, const std::function<void(Manifest&)>& change) {
  Manifest manifest = read_manifest(checkpoint);
  change(manifest);
  write_text_file_atomically(checkpoint + "/" + kManifestName, manifest_text(manifest));
}

std::string checkpoint_path(const std::string& model_dir, int64_t step) {
  return model_dir + "/" + CheckpointName{.step = step}.text();
}

std::vector<CheckpointEntry> list_checkpoints(const std::string& model_dir) {
  std::vector<CheckpointEntry> entries;
  for (const Found& one : candidates(model_dir)) {
    if (one.name.state == CheckpointState::kFinished) entries.push_back({one.name.step, one.path});
  }
  std::reverse(entries.begin(), entries.end());
  return entries;
}

bool holds_checkpoints(const std::string& model_dir) { return !candidates(model_dir).empty(); }

std::optional<std::string> latest_checkpoint(const std::string& model_dir, Skipped skipped) {
  std::vector<std::string> problems;
  for (const Found& one : candidates(model_dir)) {
    const std::string problem = problem_of(one);
    if (!problem.empty()) {
      problems.push_back(cat("checkpoint ", one.path, " is skipped: ", problem));
      continue;
    }
    if (skipped == Skipped::kWarn)
      for (const std::string& text : problems) log_warn(cat(text, "; using ", one.path));
    return one.path;
  }
  return std::nullopt;
}

std::string find_checkpoint(const std::string& path, const Storage& storage) {
  if (is_object_uri(path)) return fetch_checkpoint(path, storage_for(storage, path));
  std::string bare = path;
  while (bare.size() > 1 && bare.ends_with('/')) bare.pop_back();
  if (has_manifest(bare)) return bare;
  std::error_code ignored;
  if (!fs::is_directory(bare, ignored)) {
    throw Error(ErrorCode::kNotFound, cat("there is no checkpoint ", bare, ": no such folder"));
  }
  if (const auto latest = latest_checkpoint(bare)) return *latest;
  if (const auto found = candidates(bare); !found.empty()) {
    throw Error(
        ErrorCode::kCorruption,
        cat("no checkpoint in ", bare, " can be used; the latest: ", problem_of(found.front())));
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      cat(bare, " is not an emblem checkpoint (it has no ", kManifestName,
          ") and holds none; expected a folder like model.ckpt-1000 or the model_dir of a run"));
}

Checkpoint open_checkpoint(const std::string& path, Verify verify, CheckpointFiles files) {
  Checkpoint checkpoint{.path = find_checkpoint(path), .manifest = {}};
  checkpoint.manifest = read_manifest(checkpoint.path);
  const auto is_needed = [&](const std::string& name) {
    return files == CheckpointFiles::kAll || !name.starts_with("tables/");
  };
  for (const auto& [name, facts] : checkpoint.manifest.files)
    if (is_needed(name)) check_size(checkpoint.path, name, facts.bytes);
  if (verify == Verify::kSizes) return checkpoint;
  for (const auto& [name, facts] : checkpoint.manifest.files) {
    if (is_needed(name) && facts_of_file(checkpoint.file(name)) != facts) {
      reject(checkpoint.path,
             cat("the checksum of file ", name,
                 " does not match its content; remove the checkpoint, or name another one"));
    }
  }
  return checkpoint;
}

}  // namespace emblem
