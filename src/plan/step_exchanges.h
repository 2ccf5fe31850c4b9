// plan/step_exchanges.h - the bytes that a lookup of a model exchanges in a step.
#pragma once

#include <optional>

#include "plan/cost.h"
#include "plan/traffic.h"
#include "plan/workload.h"

namespace emblem {

class StepExchanges {
 public:
  // `hosts` outlives it.
  explicit StepExchanges(const HostGroups& hosts);

  void add(const WorkloadTable& table, const TableLoad& load, const Workload& workload);
  void add_seconds(const ExchangeTime& exchange, StepParts& seconds) const;

 private:
  // Between ranks and relays, where some rows come to a host once.
  struct Relayed {
    explicit Relayed(const HostGroups& hosts);
    Traffic sizes, keys, rows, gradients;
  };
  // Where some table is pooled by its owner.
  struct Pooled {
    explicit Pooled(const HostGroups& hosts);
    Traffic facts, keys, vectors, gradients;
  };
  void add_pooled(const WorkloadTable& table, const TableLoad& load, int64_t value_bytes);
  void add_relayed(const TableLoad& load, double key_bytes, double row_bytes, HostDedup dedup);

  const HostGroups& hosts_;
  Traffic sizes_, keys_, rows_, gradients_;
  std::optional<Relayed> relayed_;
  bool sums_by_host_ = false;
  std::optional<Pooled> pooled_;
};

}  // namespace emblem
