// ps/updates/delta_watcher.h - looks for deltas (embedding/files/delta_files.h) in a folder.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "embedding/files/delta_files.h"
#include "ps/config/databases.h"
#include "ps/tables/served_model.h"
#include "ps/tables/table_lock.h"

namespace emblem {

// Databases remember the number of the last delta they have; rows in memory and in caches have that
// of ServedModel::sequence. A Redis that servers share gets a delta from the one that holds the
// lock of the tables; the others see that it is there.
//
// A delta that is needed and has been removed is logged and counted (ServedModel::note_gap); the
// ones after it are applied, because newer rows are better than old ones. Rows that only the
// missing deltas changed stay as they are until a newer version of the model is loaded.
class DeltaApplier {
 public:
  explicit DeltaApplier(Databases& databases) : databases_(databases) {}

  // `deltas` of `folder`, in order. Throws when one cannot be applied: then those after it have not
  // been either.
  void bring_up_to_date(ServedModel& model, const std::string& folder,
                        const std::vector<DeltaFolder>& deltas);

 private:
  // The number of the last delta in each tier.
  struct Progress {
    std::optional<int64_t> l3;     // nothing: there is none, or it is read only
    std::optional<int64_t> redis;  // nothing: there is none, or it cannot be written now
    int64_t own = 0;               // rows in memory, and caches
  };
  // Which tiers need a delta.
  struct Step {
    bool l3 = false, redis = false, own = false;
    bool any() const { return l3 || redis || own; }
  };

  Progress progress_of(const ServedModel& model);
  Step step_to(const Progress& at, int64_t sequence, const TableLock* lock) const;
  void report_gap(ServedModel& model, const Progress& at, const Step& step, int64_t sequence,
                  const std::string& folder) const;
  void apply(ServedModel& model, const DeltaFolder& delta, const Step& step, TableLock* lock);

  Databases& databases_;
};

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
