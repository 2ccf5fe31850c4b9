// serve/engine/hps/served_tables.h - the tables of one version of a model in the parameter server,
// for as long as the version runs.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ps/parameter_server.h"

namespace emblem {

class ServedTables {
 public:
  // Loads them. `server` must outlive this.
  ServedTables(ParameterServer& server, const std::string& model, int64_t version,
               std::span<const TableSource> tables, int64_t updates_included);
  // As ps.json describes the model.
  ServedTables(ParameterServer& server, const std::string& model, int64_t version);
  // Tables of a model that is on no parameter server.
  explicit ServedTables(std::shared_ptr<ServedModel> model) : model_(std::move(model)) {}
  ~ServedTables();  // unloads them, unless the version was loaded again
  ServedTables(const ServedTables&) = delete;

  const ServedModel& model() const { return *model_; }
  const std::shared_ptr<ServedModel>& shared_model() const { return model_; }

  // Whether a lookup may wait for another machine or a disk: not all rows are in the memory of this
  // process.
  bool may_block() const;

  // Why the version is not ready, where the operator wants to see a loss in Redis so; else empty.
  std::string problem() const;

  // Hits, misses and time of each tier, missing keys and freshness, in Prometheus' text form.
  std::string metrics(const std::string& labels) const;

 private:
  ParameterServer* server_ = nullptr;
  std::shared_ptr<ServedModel> model_;
};

}  // namespace emblem
