#include "checkpoint/remote_model_dir.h"

#include <algorithm>
#include <set>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"
#include "core/log.h"
#include "core/text.h"
#include "remote/folder_mirror.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int kLooseDepth = 1;  // logs and results

// The step of a unit that is a finished checkpoint; -1 for others.
int64_t step_of(const std::string& unit) {
  const auto name = parse_checkpoint_name(unit);
  return name && name->state == CheckpointState::kFinished ? name->step : -1;
}

// Of finished checkpoints, ascending by step.
std::vector<std::string> checkpoints_of(const FolderMirror& mirror) {
  std::vector<std::string> found;
  for (const std::string& unit : mirror.units())
    if (step_of(unit) >= 0) found.push_back(unit);
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return step_of(a) < step_of(b); });
  return found;
}

}  // namespace

std::string fetch_checkpoint(const std::string& address) {
  RemoteStorage& storage = remote_storage();
  std::string uri = address;
  while (uri.ends_with('/')) uri.pop_back();
  std::string wanted;
  if (storage.find(join_uri(uri, "manifest.json"))) {
    const size_t slash = uri.rfind('/');
    wanted = uri.substr(slash + 1);
    uri = uri.substr(0, slash);
  }
  FolderMirror mirror(storage, uri, mirror_folder(storage, uri, "read"), 0);
  if (wanted.empty()) {
    mirror.look();
    const std::vector<std::string> found = checkpoints_of(mirror);
    if (found.empty())
      throw Error(ErrorCode::kNotFound, cat("there is no checkpoint in ", shown_uri(address),
                                            "; expected a folder like model.ckpt-1000 with a "
                                            "manifest.json, or the model_dir of a run"));
    wanted = found.back();
  }
  log_info(cat("fetching ", join_uri(uri, wanted)));
  mirror.pull([&](const std::string& unit) { return unit == wanted; });
  return mirror.local() + "/" + wanted;
}

bool holds_remote_checkpoints(const std::string& address) {
  const bool is_folder = address.find(',') == std::string::npos && !is_glob(address);
  if (!is_folder || parse_object_uri(address).kind == StoreKind::kHttp) return false;
  RemoteStorage& storage = remote_storage();
  if (storage.find(join_uri(address, "manifest.json"))) return true;
  const ObjectListing listing = storage.list(address, ListDepth::kDirect);
  return std::any_of(listing.folders.begin(), listing.folders.end(),
                     [](const std::string& name) { return step_of(name) >= 0; });
}

struct RemoteModelDir::State {
  FolderMirror mirror;
  std::vector<std::string> left;  // checkpoints that were not fetched, ascending

  explicit State(const std::string& uri)
      : mirror(remote_storage(), uri, mirror_folder(remote_storage(), uri, "train"), kLooseDepth) {}
};

RemoteModelDir::RemoteModelDir(const std::string& uri, Existing existing)
    : state_(std::make_unique<State>(uri)) {
  FolderMirror& mirror = state_->mirror;
  mirror.look();
  std::vector<std::string> found = checkpoints_of(mirror);
  EMBLEM_REQUIRE(existing == Existing::kFetchLatest || found.empty(),
                 join_uri(mirror.uri(), found.empty() ? "" : found.back()),
                 " exists already; continue it with --resume, or give another --model-dir");
  std::set<std::string> wanted;
  const auto pull = [&] {
    mirror.pull([&](const std::string& unit) {
      return wanted.contains(unit) || unit.starts_with("deltas/");
    });
  };
  if (!found.empty()) wanted.insert(found.back());
  pull();
  if (!found.empty()) {  // and the one that early stopping may restore
    const EarlyStoppingState best = read_manifest(local() + "/" + found.back()).early_stopping;
    if (best.has_best && wanted.insert(CheckpointName{.step = best.best_step}.text()).second)
      pull();
  }
  std::erase_if(found, [&](const std::string& unit) { return wanted.contains(unit); });
  state_->left = std::move(found);
}

RemoteModelDir::~RemoteModelDir() = default;

const std::string& RemoteModelDir::local() const { return state_->mirror.local(); }

std::string RemoteModelDir::address_of(const std::string& path) const {
  return path.starts_with(local()) ? state_->mirror.uri() + path.substr(local().size()) : path;
}

void RemoteModelDir::publish(int64_t keep) {
  FolderMirror& mirror = state_->mirror;
  mirror.push();
  if (keep <= 0) return;
  const std::vector<std::string> found = checkpoints_of(mirror);
  const int64_t older = static_cast<int64_t>(found.size()) - keep;
  for (int64_t i = 0; i < older; ++i)
    if (std::erase(state_->left, found[static_cast<size_t>(i)]) > 0)
      mirror.remove(found[static_cast<size_t>(i)]);
}

void RemoteModelDir::try_to_publish(int64_t keep) {
  try {
    publish(keep);
  } catch (const Error& error) {
    log_warn(cat("the checkpoint stays on this machine for now: ", error.what()));
  }
}

}  // namespace emblem
