// serve/repository/model_version.h - one version of a model while it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ps/parameter_server.h"
#include "serve/engine/batching/scheduler.h"
#include "serve/engine/servable.h"
#include "serve/protocol/memory_budget.h"

namespace inference {
class ModelConfig;
}

namespace emblem {

// What holds for the requests of all models of a server.
struct InferOptions {
  // Limit of the outputs of one request; what would need more is refused before anything is
  // allocated.
  uint64_t max_answer_bytes = uint64_t{1} << 30;
  // Answers are taken from it until they are sent; null: no limit for all of them together.
  MemoryBudget* memory = nullptr;
  // Target of models with dynamic batching whose configuration has none of its own; see
  // BatchOptions::slo_p99.
  std::chrono::microseconds slo_p99{0};
};

// Opens a version's folder for inference; `where` names the configuration in messages.
using OpenServable = std::function<std::unique_ptr<Servable>(
    const std::string& name, int64_t version, const std::string& folder,
    const inference::ModelConfig& config, const std::string& where, ParameterServer& tables)>;
// Chooses by the configuration's backend.
std::unique_ptr<Servable> open_servable(const std::string& name, int64_t version,
                                        const std::string& folder,
                                        const inference::ModelConfig& config,
                                        const std::string& where, ParameterServer& tables);

// Thread-safe.
class ModelVersion {
 public:
  // Loads the version's folder. `where` names the configuration in messages. `tables` must outlive
  // this.
  ModelVersion(const std::string& name, int64_t version, const std::string& folder,
               const inference::ModelConfig& config, const std::string& where,
               ParameterServer& tables, const InferOptions& requests = {},
               const OpenServable& open = open_servable);

  int64_t number() const { return number_; }
  int64_t max_batch_rows() const { return max_batch_rows_; }  // 0: no limit
  // What it was loaded from: the configuration and the manifest of the folder. Equal texts mean
  // that loading again would change nothing.
  const std::string& origin() const { return origin_; }
  static std::string origin_of(const std::string& folder, const inference::ModelConfig& config);

  const Servable& servable() const { return *servable_; }
  ModelStatistics statistics() const;

  // False, with nothing moved from, once it is closed. Otherwise `done` is called.
  bool infer(std::unique_ptr<InferRequest>& request, InferDone& done);
  // See InferenceService.
  ItemsChanged change_items(const InferRequest& request, ItemChange change);
  // Finishes what it has; see Scheduler::close.
  void close() { scheduler_->close(); }

 private:
  void check_size(const InferRequest& request, const RequestSize& size) const;

  int64_t number_;
  std::string origin_;
  int64_t max_batch_rows_;
  InferOptions options_;
  double load_seconds_ = 0;
  std::chrono::system_clock::time_point loaded_;
  std::unique_ptr<Servable> servable_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace emblem
