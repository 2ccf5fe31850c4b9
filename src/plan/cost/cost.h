// plan/cost/cost.h - the predicted time of a training step under a plan, by part, and the memory of
// each rank.
//
//   requests | keys | gather | rows | dense | dense_sum | sums | gradients | update
//   own rank   all    owner    all    own     all         own    all         owner
//
// Ranks wait for each other at every exchange, so a step is the sum over parts of the slowest rank.
// But parts that are measured one by one are not those of a step: caches hold other rows, threads
// wake up later, a GPU works on one while the host enqueues the next. So whole steps are probed,
// too. What those with rows over all ranks take more or less than their parts, their overlap, is
// that of every plan. What those with all tables held in another way take more or less is shared
// among the tables that a plan holds so, and what two ways side by side take more, which is found
// with every second table held so, is added once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/cost/traffic.h"
#include "plan/cost/workload.h"
#include "plan/probe/machine_profile.h"
#include "shard/table_shards.h"

namespace emblem {

inline constexpr double kKeyBytes = 8;

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
  double update = 0;     // update of rows
  // What a whole step takes more than the sum of its parts: below 0 where they overlap. Not one of
  // step_parts().
  double overlap = 0;

  double sum() const;
  double total() const;  // the sum, or the longest part where that is more
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
  std::vector<double> shares;   // shares of a rank's keys that it asks of each rank
  std::vector<double> columns;  // the share of the columns of a row that each rank has
  std::vector<double> sent;     // rows, or vectors of bags, that a rank gets from each rank
  bool replicated = false;      // rows are not sent
  bool pooled_at_owner = false;
  // Where rows of other hosts come to a host once: of the distinct keys of its ranks, the share
  // that is left, by host. Empty: each rank asks for its rows.
  std::vector<double> merged;
  std::vector<double> requesters;  // by rank: ranks that ask it, those of merged keys in part
  double keys = 0;                 // distinct ones that a rank asks for
  double row_bytes = 0;            // bytes of all columns
  double lookups = 0;              // lookups of a rank, ...
  double bags = 0;                 // ... and their bags
  // Seconds by rank, more than where each rank pools whole rows of its batch.
  std::vector<double> requests, sums;
  std::vector<double> gather, update;              // seconds by rank, while all ranks work
  std::vector<double> gather_alone, update_alone;  // while the others wait
  std::vector<RankBytes> bytes;
  Holding holding = Holding::kRows;
  double seconds = 0;  // time of its parts but exchanges, the mean of ranks
  double overlap = 0;  // its share of what steps with tables that are held so take more, seconds

  // Keys that all ranks ask of one.
  double requests_of_rank(int rank) const;
};

// The seconds until all have done their work, where ranks of a host slow each other down: `work` is
// that while all are busy, `alone` while one is.
double time_of_ranks(const std::vector<double>& work, const std::vector<double>& alone,
                     const std::vector<int>& host_of_rank);

class CostModel {
 public:
  // The costs of the ranks of the profile.
  CostModel(const MachineProfile& profile, const Workload& workload);
  // The costs of other ranks, whose exchanges are described and which do not disturb each
  // other.
  CostModel(const MachineProfile& profile, const Workload& workload, HostGroups hosts,
            ExchangeTime exchange);

  int ranks() const { return ranks_; }
  const Workload& workload() const { return workload_; }
  TableLoad load_of(size_t table, const TableShards& shards) const;
  Prediction predict(const std::vector<const TableLoad*>& loads) const;
  Prediction predict(const ShardPlan& plan) const;
  // The same ranks with another workload.
  CostModel with(const Workload& workload) const;

 private:
  struct RowSeconds;
  // Sizes over all tables of a class, where all are spread: requests that a rank gets, and its
  // own lookups; for one of them, the share of distinct keys among the requests of all ranks.
  struct CallSize {
    double requests = 0, lookups = 0, distinct_share = 1;
  };
  double dense_sum_seconds() const;
  void set_overlaps();
  double overlap_of(const StepCosts::Held& held) const;
  // What ways side by side take more than each by itself.
  double mixture_seconds(const std::vector<const TableLoad*>& loads) const;
  CallSize call_of(const WorkloadTable& table) const;
  // The time of a rank that has `rows` rows.
  static RowSeconds seconds_of(const TableCosts& costs, const CallSize& call, double rows);
  RowSeconds seconds_of_slice(const TableSettings& table, int64_t dim, const CallSize& call,
                              double rows) const;
  // The share that is left of the keys of a host's ranks, where equal ones are asked for once.
  double left_on_host(const WorkloadTable& table, size_t host) const;
  void share_rows_of_hosts(const WorkloadTable& table, TableLoad& load) const;
  // The work of relays, in seconds of a key that is found and copied, and of one that is summed.
  void add_relays(double request_seconds, double sum_seconds, TableLoad& load) const;
  // `whole` rows where they are pooled, and what each rank holds.
  static void add_pooling(const RowSeconds& whole, const std::vector<RowSeconds>& held,
                          TableLoad& load);

  MachineProfile profile_;
  Workload workload_;
  int ranks_;
  HostGroups hosts_;
  ExchangeTime exchange_;
  std::vector<int> disturbed_;  // by rank: ranks with the same number disturb each other
  double overlap_ = 0;          // overlap with rows over all ranks, seconds
  // By way to hold tables: what steps take more, as a share of TableLoad::seconds; and what they
  // take more beside tables that are held in another way, seconds.
  std::array<double, kHoldings.size()> more_ = {}, beside_ = {};
};

}  // namespace emblem
