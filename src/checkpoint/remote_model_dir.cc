#include "checkpoint/remote_model_dir.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"
#include "core/system/log.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "remote/unit_copy.h"
#include "remote/upload_thread.h"
#include "remote/working_copy.h"

namespace emblem {
namespace {

constexpr int kLooseDepth = 1;  // logs and results

// The step of a unit that is a finished checkpoint; -1 for others.
int64_t step_of(const std::string& unit) {
  const auto name = parse_checkpoint_name(unit);
  return name && name->state == CheckpointState::kFinished ? name->step : -1;
}

std::vector<std::string> by_step(std::vector<std::string> units) {
  std::erase_if(units, [](const auto& unit) { return step_of(unit) < 0; });
  std::sort(units.begin(), units.end(),
            [](const auto& a, const auto& b) { return step_of(a) < step_of(b); });
  return units;
}

// Finished checkpoints, ascending by step.
std::vector<std::string> checkpoints_of(const RemoteFolder& folder) {
  std::vector<std::string> units;
  for (const auto& [unit, objects] : folder.units()) units.push_back(unit);
  return by_step(std::move(units));
}

std::vector<std::string> checkpoints_here(const WorkingCopy& copy) {
  const std::set<std::string> units = copy.local_units();
  return by_step({units.begin(), units.end()});
}

// Deltas in their order, then the newest checkpoint first.
std::vector<std::string> upload_order(std::vector<std::string> units) {
  std::stable_sort(units.begin(), units.end(),
                   [](const auto& a, const auto& b) { return step_of(a) > step_of(b); });
  std::stable_partition(units.begin(), units.end(),
                        [](const auto& unit) { return step_of(unit) < 0; });
  return units;
}

// The check of a checkpoint that has just arrived.
FetchCheck contents_of(const std::string& address) {
  return [address](const std::string& folder) {
    try {
      open_checkpoint(folder);
    } catch (const Error& error) {
      throw Error(error.code(),
                  cat(address, " is damaged, or was damaged on its way: ", error.what()));
    }
  };
}

// What was fetched stays readable as long as the storage: no call says when its readers end.
std::string fetch_and_hold(const RemoteFolder& folder, const std::string& unit) {
  RemoteStorage& storage = folder.storage();
  log_info(cat("fetching ", folder.address(unit)));
  FetchOptions options;
  options.check = contents_of(folder.address(unit));
  UnitCopy copy =
      fetch_unit(folder, unit, fingerprint_of(storage, folder.units().at(unit)), options);
  storage.cache().hold(std::move(copy.hold));
  return copy.path;
}

}  // namespace

std::string fetch_checkpoint(const std::string& address, RemoteStorage& storage) {
  std::string uri = address;
  while (uri.ends_with('/')) uri.pop_back();
  std::string wanted;
  if (storage.find(join_uri(uri, kUnitManifest))) {
    const size_t slash = uri.rfind('/');
    wanted = uri.substr(slash + 1);
    uri = uri.substr(0, slash);
  }
  RemoteFolder folder(storage, uri, 0);
  constexpr int kAttempts = 5;  // a training may remove old checkpoints meanwhile
  for (int attempt = 1;; ++attempt) {
    if (wanted.empty())
      folder.look();
    else
      folder.look_at(wanted);
    const std::vector<std::string> found = checkpoints_of(folder);
    const std::string unit = wanted.empty() ? (found.empty() ? "" : found.back()) : wanted;
    if (unit.empty() || !folder.has(unit))
      throw Error(ErrorCode::kNotFound, cat("there is no checkpoint in ", shown_uri(address),
                                            "; expected a folder like model.ckpt-1000 with a "
                                            "manifest.json, or the model_dir of a run"));
    try {
      return fetch_and_hold(folder, unit);
    } catch (const Error&) {
      const auto seen = folder.units().at(unit);
      folder.look_at(unit);
      const bool is_same = folder.has(unit) && folder.units().at(unit).size() == seen.size();
      if (attempt == kAttempts || is_same) throw;
    }
  }
}

bool holds_remote_checkpoints(const std::string& address, RemoteStorage& storage) {
  const bool is_folder = address.find(',') == std::string::npos && !is_glob(address);
  if (!is_folder || parse_object_uri(address).kind == StoreKind::kHttp) return false;
  if (storage.find(join_uri(address, kUnitManifest))) return true;
  const ObjectListing listing = storage.list(address, ListDepth::kDirect);
  return std::any_of(listing.folders.begin(), listing.folders.end(),
                     [](const std::string& name) { return step_of(name) >= 0; });
}

struct RemoteModelDir::State {
  Storage storage;
  WorkingCopy copy;
  int64_t keep;
  std::vector<std::string> left;  // checkpoints of the store that were not fetched
  std::optional<UploadThread> thread;

  State(const std::string& uri, int64_t keep_checkpoints, const Storage& of)
      : storage(of), copy(storage_for(of, uri), uri, kLooseDepth), keep(keep_checkpoints) {}

  bool is_ahead() const;
  void upload_earlier();
  void refuse_existing() const;
  void remove_what_is_gone();
  void fetch_newest();
  void prepare_files();
  void upload_all();
  void remove_old();
};

// Whether the newest checkpoint of this machine is at least as new as that of the store.
bool RemoteModelDir::State::is_ahead() const {
  const std::vector<std::string> here = checkpoints_here(copy);
  const std::vector<std::string> there = checkpoints_of(copy.remote());
  return there.empty() || (!here.empty() && step_of(here.back()) >= step_of(there.back()));
}

// What a run on this machine saved and could not upload.
void RemoteModelDir::State::upload_earlier() {
  copy.compare();
  const std::vector<std::string> pending = upload_order(copy.pending_units());
  if (pending.empty()) return;
  const bool has_logs = is_ahead();
  log_info(cat("an earlier run on this machine could not upload ", joined(pending), " (in ",
               copy.local(), "); uploading to ", copy.uri(), " first"));
  try {
    for (const std::string& unit : pending) copy.upload(unit);
    if (has_logs) copy.upload_loose_files();
  } catch (const Error& error) {
    log_warn(cat("it stays on this machine for now, in ", copy.local(), ": ", error.what()));
  }
  copy.look();
}

void RemoteModelDir::State::refuse_existing() const {
  const std::vector<std::string> found = checkpoints_of(copy.remote());
  EMBLEM_REQUIRE(found.empty(), copy.remote().address(found.empty() ? "" : found.back()),
                 " exists already; continue it with --resume, or give another --model-dir");
  const std::vector<std::string> pending = by_step(copy.pending_units());
  EMBLEM_REQUIRE(pending.empty(), copy.local(), "/", pending.empty() ? "" : pending.back(),
                 ", of an earlier run into ", copy.uri(),
                 ", was not uploaded yet; continue it with --resume, or give another --model-dir");
}

// Trainings remove what has a newer checkpoint. All else was removed by hand, or the store lost it.
void RemoteModelDir::State::remove_what_is_gone() {
  const std::vector<std::string> there = checkpoints_of(copy.remote());
  const int64_t newest = there.empty() ? -1 : step_of(there.back());
  copy.remove_what_is_gone([&](const std::string& name) { return step_of(name) < newest; });
}

// The logs of the side that training continues from count.
void RemoteModelDir::State::prepare_files() {
  if (!is_ahead())
    for (const std::string& name : copy.pending_files())
      if (copy.remote().loose().contains(name))
        log_info(cat(name, " of an earlier run on this machine is kept in ", copy.set_aside(name)));
  copy.fetch_files();
}

void RemoteModelDir::State::fetch_newest() {
  left = checkpoints_of(copy.remote());
  const std::vector<std::string> here = checkpoints_here(copy);
  const int64_t newest_here = here.empty() ? -1 : step_of(here.back());
  const int64_t newest_there = left.empty() ? -1 : step_of(left.back());
  const bool is_here_only = newest_here > newest_there;
  if (is_here_only)
    log_info(cat("continuing from ", copy.local(), "/", here.back(), ", which is newer than ",
                 left.empty() ? "anything" : left.back(), " in ", copy.uri()));
  else if (!left.empty())
    log_info(cat("continuing from ", copy.remote().address(left.back())));
  std::set<std::string> wanted;
  for (const auto& [unit, objects] : copy.remote().units())
    if (unit.starts_with("deltas/")) wanted.insert(unit);
  std::string newest = is_here_only ? here.back() : "";
  if (!is_here_only && !left.empty()) wanted.insert(newest = left.back());
  for (const std::string& unit : wanted)
    copy.fetch(unit, step_of(unit) < 0 ? nullptr : contents_of(copy.remote().address(unit)));
  if (!newest.empty()) {  // and the one that early stopping may restore
    const EarlyStoppingState best = read_manifest(copy.local() + "/" + newest).early_stopping;
    const std::string unit = CheckpointName{.step = best.best_step}.text();
    if (best.has_best && copy.remote().has(unit)) {
      copy.fetch(unit, contents_of(copy.remote().address(unit)));
      wanted.insert(unit);
    }
  }
  std::erase_if(left, [&](const std::string& unit) { return wanted.contains(unit); });
}

void RemoteModelDir::State::upload_all() {
  for (const std::string& unit : upload_order(copy.pending_units())) copy.upload(unit);
  copy.upload_loose_files();
  try {
    remove_old();
  } catch (const Error& error) {  // the next upload tries again
    log_warn(cat("older checkpoints stay in ", copy.uri(), ": ", error.what()));
  }
}

// What is gone here and has a successor in the store. Everything that is here is there first, or,
// where checkpoints are saved faster than uploaded, as many newer ones as are kept.
void RemoteModelDir::State::remove_old() {
  const std::set<std::string> here = copy.local_units();
  const bool is_complete = copy.pending_units().empty();
  const std::vector<std::string> there = checkpoints_of(copy.remote());
  for (size_t i = 0; i < there.size(); ++i) {
    if (here.contains(there[i])) continue;
    const auto newer = static_cast<int64_t>(there.size() - i) - 1;
    const bool is_left = std::find(left.begin(), left.end(), there[i]) != left.end();
    const bool was_here = !is_left && copy.knows(there[i]);
    const bool is_enough = keep > 0 && newer >= keep;
    if (!((is_left || was_here) && is_enough) && !(was_here && is_complete && newer > 0)) continue;
    copy.remove(there[i]);
    std::erase(left, there[i]);
  }
  std::vector<std::string> deltas;
  for (const auto& [unit, objects] : copy.remote().units())
    if (step_of(unit) < 0 && !here.contains(unit) && copy.knows(unit)) deltas.push_back(unit);
  if (!is_complete) return;
  for (const std::string& unit : deltas) copy.remove(unit);
}

RemoteModelDir::RemoteModelDir(const std::string& uri, Existing existing, int64_t keep,
                               const Storage& storage)
    : state_(std::make_unique<State>(uri, keep, storage)) {
  State& state = *state_;
  remove_leftovers(local());
  state.upload_earlier();
  if (existing == Existing::kOnlyNames) state.refuse_existing();
  state.remove_what_is_gone();
  state.prepare_files();
  if (existing == Existing::kFetchLatest) state.fetch_newest();
  state.thread.emplace([&state] { state.upload_all(); },
                       [&state](const std::string& problem) {
                         log_warn(cat("the checkpoint stays on this machine for now, in ",
                                      state.copy.local(), ": ", problem));
                       });
  if (state.copy.has_pending()) publish();
}

RemoteModelDir::~RemoteModelDir() = default;

const std::string& RemoteModelDir::local() const { return state_->copy.local(); }

std::string RemoteModelDir::address_of(const std::string& path) const {
  return path.starts_with(local()) ? state_->copy.uri() + path.substr(local().size()) : path;
}

void RemoteModelDir::publish() { state_->thread->request(); }

void RemoteModelDir::finish() {
  state_->thread->stop();
  try {
    state_->upload_all();
  } catch (const Error& error) {
    throw Error(error.code(),
                cat(error.what(), "; what was not uploaded is in ", local(),
                    ", and the next run with this --model-dir on this machine uploads it"));
  }
}

void RemoteModelDir::try_to_finish() {
  try {
    finish();
  } catch (const Error& error) {
    log_warn(error.what());
  }
}

}  // namespace emblem
