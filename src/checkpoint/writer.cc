#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"
#include "core/files/file.h"
#include "core/files/inner_path.h"
#include "core/files/output_file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& doing, const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kUnavailable, cat("cannot ", doing, " ", path, ": ", why));
}

std::string hidden_path(const std::string& model_dir, CheckpointState state, int64_t step) {
  return model_dir + "/" + CheckpointName{state, step, ::getpid()}.text();
}

// Leftovers with this process's own number are from an earlier process: there is one writer at a
// time.
bool is_abandoned(int64_t process) {
  return process == ::getpid() || (::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH);
}

// Deletes the unfinished checkpoints of killed writers, after giving a replaced checkpoint its name
// back where its successor never got it.
void clean_up(const std::string& model_dir) {
  std::vector<CheckpointName> abandoned;
  std::error_code ignored;  // a folder that cannot be listed fails soon enough
  for (fs::directory_iterator entry(model_dir, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const auto name = parse_checkpoint_name(entry->path().filename().string());
    if (name && name->state != CheckpointState::kFinished && is_abandoned(name->process))
      abandoned.push_back(*name);
  }
  for (const CheckpointName& name : abandoned) {
    const std::string path = model_dir + "/" + name.text();
    const std::string finished = checkpoint_path(model_dir, name.step);
    if (name.state == CheckpointState::kReplaced && !fs::exists(finished, ignored)) {
      rename_path(path, finished);
    } else {
      fs::remove_all(path, ignored);
    }
  }
}

void remove_abandoned_files(const std::string& folder) {
  std::vector<fs::path> left;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const auto process = unfinished_by(entry->path().filename().string());
    if (process && is_abandoned(*process)) left.push_back(entry->path());
  }
  for (const fs::path& path : left) fs::remove_all(path, ignored);
}

void sync_folders(const std::string& root) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_directory(error)) sync_directory(entry->path().string());
  }
  if (error) fail("list the folder", root, error.message());
  sync_directory(root);
}

// Puts `from` into the place of `to`, which exists, and deletes that.
void replace_folder(const std::string& model_dir, const std::string& from, const std::string& to,
                    int64_t step) {
  std::error_code ignored;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    sync_directory(model_dir);
    fs::remove_all(from, ignored);
    return;
  }
  // Some file systems cannot exchange. Between the two renames latest_checkpoint finds the old one
  // by its hidden name.
  const std::string old = hidden_path(model_dir, CheckpointState::kReplaced, step);
  rename_path(to, old);
  rename_path(from, to);
  sync_directory(model_dir);
  fs::remove_all(old, ignored);
}

}  // namespace

CheckpointWriter::CheckpointWriter(const std::string& model_dir, int64_t step)
    : model_dir_(model_dir),
      step_(step),
      path_(hidden_path(model_dir, CheckpointState::kUnfinished, step)) {
  EMBLEM_REQUIRE(step >= 0, "a checkpoint cannot be of step ", step);
  make_folders(model_dir);
  clean_up(model_dir);
  make_folders(path_);
}

CheckpointWriter::~CheckpointWriter() {
  std::error_code ignored;  // the next writer tries again
  fs::remove_all(path_, ignored);
}

void CheckpointWriter::add_file(const std::string& name, FileFacts facts) {
  path_below(path_, name);
  EMBLEM_REQUIRE(files_.emplace(name, facts).second, "file ", name,
                 " is in the checkpoint already");
}

void CheckpointWriter::write_file(const std::string& name, std::string_view content) {
  const std::string path = path_below(path_, name);
  make_folders(fs::path(path).parent_path().string());
  FileWriter file(path);
  file.write(content);
  file.finish();
  add_file(name, {file.bytes_written(), file.checksum()});
}

std::string CheckpointWriter::commit(Manifest manifest) {
  for (const auto& [name, facts] : files_) {
    std::error_code error;
    const uint64_t bytes = fs::file_size(path_ + "/" + name, error);
    EMBLEM_REQUIRE(!error && bytes == facts.bytes, "file ", name, " of the checkpoint should have ",
                   facts.bytes, " bytes, but ", error ? error.message() : cat("has ", bytes));
  }
  manifest.step = step_;
  manifest.files = files_;
  FileWriter file(path_ + "/manifest.json");
  file.write(manifest_text(manifest));
  file.finish();
  sync_folders(path_);

  const std::string finished = checkpoint_path(model_dir_, step_);
  std::error_code ignored;
  if (fs::exists(finished, ignored)) {
    replace_folder(model_dir_, path_, finished, step_);
  } else {
    rename_path(path_, finished);
    sync_directory(model_dir_);
  }
  return finished;
}

void prune_checkpoints(const std::string& model_dir, int64_t keep,
                       std::span<const int64_t> spared) {
  if (keep <= 0) return;
  std::vector<CheckpointEntry> entries = list_checkpoints(model_dir);
  entries.resize(static_cast<size_t>(
      std::max<int64_t>(static_cast<int64_t>(entries.size()) - keep, 0)));  // older than those
  for (const CheckpointEntry& entry : entries) {
    if (std::find(spared.begin(), spared.end(), entry.step) == spared.end())
      remove_checkpoint(model_dir, entry.step);
  }
}

void remove_checkpoint(const std::string& model_dir, int64_t step) {
  const std::string hidden = hidden_path(model_dir, CheckpointState::kUnfinished, step);
  rename_path(checkpoint_path(model_dir, step), hidden);
  std::error_code ignored;  // the next writer tries again
  fs::remove_all(hidden, ignored);
}

void remove_leftovers(const std::string& model_dir) {
  clean_up(model_dir);
  remove_abandoned_files(model_dir);
  for (const CheckpointEntry& entry : list_checkpoints(model_dir))
    remove_abandoned_files(entry.path);
}

}  // namespace emblem
