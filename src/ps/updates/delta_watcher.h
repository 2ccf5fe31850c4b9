// ps/updates/delta_watcher.h - applies the deltas (embedding/files/delta_files.h) that appear in a
// folder.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "embedding/files/delta_files.h"
#include "ps/tables/served_model.h"

namespace emblem {

// Looks every `every`, in a thread of its own. A delta that cannot be applied is tried again at
// every look, and those behind it wait: order is never changed. Thread-safe.
class DeltaWatcher {
 public:
  using Models = std::function<std::vector<std::shared_ptr<ServedModel>>()>;
  // Called when a model has taken a delta whole, before it says so itself.
  using Applied = std::function<void(const ServedModel& model, int64_t sequence)>;

  DeltaWatcher(std::string folder, std::chrono::milliseconds every, Models models, Applied applied);
  ~DeltaWatcher();
  DeltaWatcher(const DeltaWatcher&) = delete;

  void look();  // now; returns when everything was tried

 private:
  void work(std::chrono::milliseconds every);
  void bring_up_to_date(ServedModel& model, const std::vector<DeltaFolder>& deltas);
  void apply(ServedModel& model, const DeltaFolder& delta);

  const std::string folder_;
  const Models models_;
  const Applied applied_;
  std::mutex looking_;
  std::string last_error_;  // that was logged

  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace emblem
