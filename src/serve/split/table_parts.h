// serve/split/table_parts.h - a table server: the rows of a range of parts of all models, and the
// answers to front ends.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ps/remote/row_message.h"
#include "ps/tables/periodic_task.h"
#include "ps/tables/served_model.h"
#include "serve/protocol/inference_service.h"

namespace emblem {

struct TablePartsOptions {
  PartRange parts;
  DType row_type = DType::kF32;  // type of rows in memory
  // How long a version is kept after it was replaced and no front end has said since that it uses
  // it.
  std::chrono::milliseconds keep = std::chrono::seconds(30);
  uint64_t max_answer_bytes = uint64_t{1} << 30;
};

// Thread-safe.
class TableParts final : public RowService {
 public:
  explicit TableParts(TablePartsOptions options);

  PartRange parts() const { return options_.parts; }

  // Rows of the version are given from now on. When the result is destroyed the version counts as
  // replaced. This must outlive the result.
  std::shared_ptr<const void> hold(const ModelId& id, std::shared_ptr<ServedModel> model);
  // Whether any version of the model is held.
  bool has(const std::string& model) const;
  // All versions, with those that were replaced and are still in use.
  std::vector<ModelId> held() const;

  std::vector<std::byte> rows(std::span<const std::byte> request,
                              MemoryBudget::Lease& lease) override;
  std::string status(std::span<const std::byte> request) override;

  // Metrics in Prometheus' text form.
  std::string metrics() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Version {
    std::shared_ptr<ServedModel> model;
    int holders = 0;         // 0: replaced
    Clock::time_point used;  // when a front end last said so, or it was replaced
  };

  std::shared_ptr<ServedModel> find(const ModelId& id) const;
  std::vector<std::byte> answer(const RowRequest& request, MemoryBudget::Lease& lease) const;
  void release(const ModelId& id);
  void drop_unused();

  const TablePartsOptions options_;
  mutable std::mutex mutex_;
  std::map<ModelId, Version> versions_;
  std::atomic<uint64_t> requests_{0}, refusals_{0}, keys_{0};
  PeriodicTask dropping_;
};

}  // namespace emblem
