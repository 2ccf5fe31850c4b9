// plan/probe/machine_profile.h - what `emblem probe` measured on the machines that a training will
// run on: with its number of ranks, all at work at the same time, over its transport.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "embedding/settings.h"
#include "plan/cost/curve.h"
#include "plan/search/holders.h"

namespace emblem {

// Tables whose rows cost the same.
struct TableClass {
  int64_t dim = 0;
  std::string dtype = "fp32", rule = "sgd";
  bool is_dynamic = false;

  bool operator==(const TableClass&) const = default;
};
TableClass class_of(const TableSettings& settings);
std::string to_text(const TableClass& table);  // "dim 16, fp32, adagrad, static"

// Times are of all ranks at once: the slowest one counts. `alone_share` is the time of one rank
// while the others wait, as a share of that: 1 where ranks do not disturb each other, 1 / N where
// they share one device.
struct TableCosts {
  TableClass table;
  KernelCurves gather, update;
  // Times by lookups of a rank's batch: finding its distinct keys and pooling their rows, and
  // summing gradients by key.
  Curve requests, sums;
  double gather_alone_share = 1, update_alone_share = 1;
  double bytes_per_row = 0;
  bool operator==(const TableCosts&) const = default;
};

// Exchanges by bytes of the busiest rank.
struct ExchangeCosts {
  Curve even;  // every rank sends as much to every other
  Curve one;   // one rank sends to all others, which send nothing
  // Every rank sends as much to every other one of its host. Probed where there are several hosts,
  // and one has several ranks.
  Curve inside;
  bool operator==(const ExchangeCosts&) const = default;
};

// A step of the model, by rows of a rank's batch, without what depends on the plan.
struct PassCosts {
  Curve requests;  // finding the distinct keys of a batch, pooling the rows that come
  Curve dense;     // layers, losses, dense update
  Curve sums;      // gradients by key
  bool operator==(const PassCosts&) const = default;
};

// Whole steps of all ranks, not divided into parts, with tables held in one way: see plan_held().
struct StepCosts {
  struct Held {
    HeldTables tables;
    Curve seconds;  // by rows of a shard of a batch
    bool operator==(const Held&) const = default;
  };

  int64_t shards = 1;      // shards of a rank
  std::vector<Held> held;  // those that were probed
  bool operator==(const StepCosts&) const = default;
  const Held* find(Holding holding, bool every_second = false) const;  // null: not probed
};

// Ranks that take memory from the same place: of a host, or of a GPU.
struct MemoryPool {
  std::vector<int> ranks;
  int64_t free_bytes = 0;
  bool operator==(const MemoryPool&) const = default;
};

struct MachineProfile {
  std::string date, device = "cpu", transport = "threads";
  std::string model;               // whose pass was measured
  int threads = 1;                 // threads of a rank
  std::vector<std::string> hosts;  // by rank
  std::vector<MemoryPool> memory;
  ExchangeCosts exchange;
  Curve dense_sum;  // sum over all ranks, by number of values
  PassCosts pass;
  StepCosts steps;
  std::vector<TableCosts> tables;

  int ranks() const { return static_cast<int>(hosts.size()); }
  // Throws Error where the class was not probed.
  const TableCosts& costs_of(const TableSettings& settings) const;
  // The probed classes next to a slice of `dim` columns: the widest below or equal, and the
  // narrowest above or equal; twice the same at the ends.
  std::pair<const TableCosts*, const TableCosts*> costs_around(const TableSettings& settings,
                                                               int64_t dim) const;
  bool operator==(const MachineProfile&) const = default;
};

std::string to_json(const MachineProfile& profile);
// Throws Error that names `path`, the field and what is wrong with it.
MachineProfile parse_machine_profile(const std::string& json, const std::string& path);

}  // namespace emblem
