#include "ps/updates/delta_watcher.h"

#include "core/caught_error.h"
#include "core/log.h"
#include "core/start_thread.h"

namespace emblem {

DeltaWatcher::DeltaWatcher(std::string folder, std::chrono::milliseconds every, Models models,
                           DeltaApplier& applier, List list)
    : folder_(std::move(folder)),
      models_(std::move(models)),
      applier_(applier),
      list_(std::move(list)) {
  look();
  thread_ = start_thread("watching for deltas", [this, every] { work(every); });
}

DeltaWatcher::~DeltaWatcher() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void DeltaWatcher::work(std::chrono::milliseconds every) noexcept {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (stopping_.wait_for(lock, every, [&] { return stop_; })) return;
    }
    look();
  }
}

void DeltaWatcher::look() noexcept {
  std::lock_guard lock(looking_);
  try {
    const std::vector<DeltaFolder> deltas = list_(folder_);
    bool well = true;
    for (const auto& model : models_()) {
      try {
        applier_.bring_up_to_date(*model, folder_, deltas);
      } catch (...) {
        well = false;
        const Error error = caught_error();
        model->note_error();
        log_once(cat("model ", model->name(), ", version ", model->version(), ": the delta after ",
                     model->sequence(), " waits"),
                 error);
      }
    }
    if (well) logged_.clear();
  } catch (...) {
    const Error error = caught_error();
    try {
      log_once("deltas", error);
    } catch (...) {  // no memory for the line
    }
  }
}

void DeltaWatcher::log_once(const std::string& problem, const Error& error) {
  if (logged_.emplace(problem, error.code()).second) log_error(cat(problem, ": ", error.what()));
}

}  // namespace emblem
