// plan/cost.h - the predicted time of a training step under a plan, by part, and the memory of each
// rank.
//
//   requests | keys | gather | rows | dense | dense_sum | sums | gradients | update
//   own rank   all    owner    all    own     all         own    all         owner
//
// Ranks wait for each other at every exchange, so a step is the sum over parts of the slowest rank.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/machine_profile.h"
#include "plan/traffic.h"
#include "plan/workload.h"
#include "shard/plan.h"

namespace emblem {

// Seconds.
struct StepParts {
  double requests = 0;   // distinct keys of the batch, pooling
  double keys = 0;       // exchange of keys and their counts
  double gather = 0;     // rows that ranks ask of this one
  double rows = 0;       // exchange
  double dense = 0;      // layers and their update
  double dense_sum = 0;  // gradients of layers over ranks
  double sums = 0;       // gradients by key
  double gradients = 0;  // exchange
  double update = 0;     // of rows

  double total() const;
};
struct NamedPart {
  const char* name;
  double StepParts::*seconds;
};
const std::array<NamedPart, 9>& step_parts();

struct RankBytes {
  double tables = 0, exchange = 0, dense = 0;
  double total() const { return tables + exchange + dense; }
};

struct Prediction {
  StepParts seconds;
  std::vector<RankBytes> bytes;  // by rank
  std::vector<double> work;      // gather and update of each rank, seconds
};

// What a table costs when it is held in one way.
struct TableLoad {
  std::vector<double> shares;  // of the keys that a rank asks for: those it asks of each rank
  bool replicated = false;     // rows are not sent
  double keys = 0;             // distinct ones that a rank asks for
  std::vector<double> gather, update;              // seconds by rank, while all ranks work
  std::vector<double> gather_alone, update_alone;  // while the others wait
  std::vector<RankBytes> bytes;
};

// The seconds until all have done their work, where ranks of a host slow each other down: `work` is
// that while all are busy, `alone` while one is.
double time_of_ranks(const std::vector<double>& work, const std::vector<double>& alone,
                     const std::vector<int>& host_of_rank);

class CostModel {
 public:
  // For the ranks of the profile.
  CostModel(const MachineProfile& profile, const Workload& workload);
  // For others, whose exchanges are described and which do not disturb each other.
  CostModel(const MachineProfile& profile, const Workload& workload, int ranks,
            ExchangeTime exchange);

  int ranks() const { return ranks_; }
  const Workload& workload() const { return workload_; }
  TableLoad load_of(size_t table, const TableShards& shards) const;
  Prediction predict(const std::vector<const TableLoad*>& loads) const;
  Prediction predict(const ShardPlan& plan) const;
  // The same ranks with another workload.
  CostModel with(const Workload& workload) const;

 private:
  struct Exchanges;
  double dense_sum_seconds() const;
  // Requests that a rank gets of all tables of a class, where all are spread.
  double requests_of(const TableClass& table) const;

  MachineProfile profile_;
  Workload workload_;
  int ranks_;
  ExchangeTime exchange_;
  std::vector<int> host_of_rank_;
};

}  // namespace emblem
