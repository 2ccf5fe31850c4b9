// ps/updates/delta_watcher.h - looks for deltas (embedding/files/delta_files.h) in a folder.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/updates/delta_applier.h"

namespace emblem {

// Looks at once, before it is constructed, and then every `every`, on a thread of its own. A delta
// that cannot be applied is tried again at every look, and those after it wait: order is never
// changed. Thread-safe.
class DeltaWatcher {
 public:
  using Models = std::function<std::vector<std::shared_ptr<ServedModel>>()>;
  using List = std::function<std::vector<DeltaFolder>(const std::string& folder)>;

  // `applier` is borrowed.
  DeltaWatcher(std::string folder, std::chrono::milliseconds every, Models models,
               DeltaApplier& applier, List list = list_deltas);
  ~DeltaWatcher();
  DeltaWatcher(const DeltaWatcher&) = delete;

  // Now; returns when everything was tried. What goes wrong is logged, once while it lasts, and
  // counted by the model.
  void look() noexcept;

 private:
  void work(std::chrono::milliseconds every) noexcept;
  void log_once(const std::string& problem, const Error& error);

  const std::string folder_;
  const Models models_;
  DeltaApplier& applier_;
  const List list_;
  std::mutex looking_;
  std::set<std::pair<std::string, ErrorCode>> logged_;  // problems that last

  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace emblem
