#include "plan/cost.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "embedding/bins.h"
#include "embedding/row_share.h"
#include "shard/sharded_lookup.h"

namespace emblem {
namespace {

constexpr double kKeyBytes = 8, kCountBytes = 4, kAbsentBytes = 1, kSizeBytes = 4;
constexpr double kStepWordBytes = 64;  // what ranks tell each other of a batch, and of its losses
constexpr double kFloat = 4;

// Memory of a lookup over ranks, besides rows: the map of a batch's keys and where each is, for
// every lookup; lists of distinct keys; keys that others ask for.
constexpr double kBytesOfLookup = 52, kBytesOfKey = 38, kBytesOfRequest = 16;
constexpr double kRowsOfKey = 1, kRowsOfRequest = 1;  // a row, then its gradient

std::vector<double> shares_of(const TableSettings& settings, const TableShards& shards, int ranks) {
  if (shards.replicated) return std::vector<double>(static_cast<size_t>(ranks), 1.0);
  std::vector<double> result;
  for (int r = 0; r < ranks; ++r) {
    const PartRange held = shards.held_by(r);
    const bool is_small = settings.kind == TableKind::kStatic && settings.capacity > 0;
    result.push_back(is_small ? static_cast<double>(keys_held(settings.capacity, held)) /
                                    static_cast<double>(settings.capacity)
                              : static_cast<double>(held.count()) / kParts);
  }
  return result;
}

// Rows that a rank keeps in memory.
double rows_held(const WorkloadTable& table, const TableShards& shards, int rank) {
  const PartRange held = shards.held_by(rank);
  if (table.settings.kind == TableKind::kStatic)
    return static_cast<double>(local_rows(table.settings.capacity, held));
  return table.expected_keys * held.count() / kParts;
}

std::vector<int> host_numbers(const std::vector<std::string>& hosts) {
  std::map<std::string, int> numbers;
  std::vector<int> result;
  for (const std::string& host : hosts)
    result.push_back(numbers.try_emplace(host, static_cast<int>(numbers.size())).first->second);
  return result;
}

// Of the ranks of one host.
double time_of_host(std::vector<std::pair<double, double>> ranks) {
  std::sort(ranks.begin(), ranks.end());
  const double work = std::accumulate(ranks.begin(), ranks.end(), 0.0,
                                      [](double sum, auto& r) { return sum + r.first; });
  const double alone = std::accumulate(ranks.begin(), ranks.end(), 0.0,
                                       [](double sum, auto& r) { return sum + r.second; });
  if (work <= 0) return 0;
  const double alone_share = std::min(1.0, alone / work);
  const auto count = static_cast<double>(ranks.size());
  double seconds = 0, done = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const double active = count - static_cast<double>(i);
    const double slowdown =
        count > 1 ? alone_share + (1 - alone_share) * (active - 1) / (count - 1) : 1.0;
    seconds += (ranks[i].first - done) * slowdown;
    done = ranks[i].first;
  }
  return seconds;
}

}  // namespace

double StepParts::total() const {
  double sum = 0;
  for (const NamedPart& part : step_parts()) sum += this->*part.seconds;
  return sum;
}

const std::array<NamedPart, 9>& step_parts() {
  static const std::array<NamedPart, 9> parts = {{{"requests", &StepParts::requests},
                                                  {"keys", &StepParts::keys},
                                                  {"gather", &StepParts::gather},
                                                  {"rows", &StepParts::rows},
                                                  {"dense", &StepParts::dense},
                                                  {"dense_sum", &StepParts::dense_sum},
                                                  {"sums", &StepParts::sums},
                                                  {"gradients", &StepParts::gradients},
                                                  {"update", &StepParts::update}}};
  return parts;
}

double time_of_ranks(const std::vector<double>& work, const std::vector<double>& alone,
                     const std::vector<int>& host_of_rank) {
  std::map<int, std::vector<std::pair<double, double>>> hosts;
  for (size_t r = 0; r < work.size(); ++r) hosts[host_of_rank[r]].push_back({work[r], alone[r]});
  double slowest = 0;
  for (auto& [host, ranks] : hosts) slowest = std::max(slowest, time_of_host(std::move(ranks)));
  return slowest;
}

CostModel::CostModel(const MachineProfile& profile, const Workload& workload)
    : profile_(profile),
      workload_(workload),
      ranks_(profile.ranks()),
      exchange_(measured_exchange(profile.exchange, profile.ranks())),
      host_of_rank_(host_numbers(profile.hosts)) {}

CostModel::CostModel(const MachineProfile& profile, const Workload& workload, int ranks,
                     ExchangeTime exchange)
    : profile_(profile),
      workload_(workload),
      ranks_(ranks),
      exchange_(std::move(exchange)),
      host_of_rank_(static_cast<size_t>(ranks)) {
  std::iota(host_of_rank_.begin(), host_of_rank_.end(), 0);
}

TableLoad CostModel::load_of(size_t index, const TableShards& planned) const {
  const WorkloadTable& table = workload_.tables[index];
  const TableShards shards =
      in_whole_bins(planned, profile_.device == "cpu" ? bins_of_limits(table.settings) : 0);
  EMBLEM_REQUIRE(shards.columns.empty() && !shards.pooled_at_owner, "table ", shards.table,
                 shards.columns.empty() ? " is pooled by its owner" : " is held by columns",
                 ", which cannot be predicted yet; use rows, rank N or replicated");
  const TableCosts& costs = profile_.costs_of(table.settings);
  const auto count = static_cast<size_t>(ranks_);
  const auto shards_a_rank = static_cast<double>(workload_.shards);
  const auto rows = static_cast<double>(workload_.rows);
  TableLoad load{.shares = shares_of(table.settings, shards, ranks_),
                 .replicated = shards.replicated};
  load.keys = shards_a_rank * table.keys.at(rows);
  const double lookups = shards_a_rank * rows * table.keys.lookups_a_row();
  const double distinct = table.keys.at(rows * shards_a_rank * ranks_);
  const double row_bytes = static_cast<double>(table.settings.dim) * kFloat;
  const double usual = requests_of(class_of(table.settings));
  const double share = load.keys > 0 ? distinct / (load.keys * ranks_) : 1.0;
  for (size_t r = 0; r < count; ++r) {
    const double requests = load.keys * ranks_ * load.shares[r];
    const double read = load.replicated ? load.keys : requests;  // copies update without reading
    const double bytes = rows_held(table, shards, static_cast<int>(r)) * costs.bytes_a_row;
    // All tables of a rank are one call, whose fixed cost they share.
    const auto seconds = [&](const KernelCurves& kernel, double part) {
      return usual > 0 ? part * kernel.at(usual, share, bytes) / usual : 0.0;
    };
    load.gather.push_back(seconds(costs.gather, read));
    load.update.push_back(seconds(costs.update, requests));
    load.gather_alone.push_back(load.gather.back() * costs.gather_alone_share);
    load.update_alone.push_back(load.update.back() * costs.update_alone_share);
    load.bytes.push_back({.tables = bytes,
                          .exchange = lookups * kBytesOfLookup +
                                      load.keys * (kBytesOfKey + kRowsOfKey * row_bytes) +
                                      requests * (kBytesOfRequest + kRowsOfRequest * row_bytes)});
  }
  return load;
}

double CostModel::requests_of(const TableClass& wanted) const {
  double requests = 0;
  for (const WorkloadTable& table : workload_.tables)
    if (class_of(table.settings) == wanted)
      requests += static_cast<double>(workload_.shards) *
                  table.keys.at(static_cast<double>(workload_.rows));
  return requests;
}

// Of one lookup of the model.
struct CostModel::Exchanges {
  explicit Exchanges(int ranks) : sizes(ranks), keys(ranks), rows(ranks), gradients(ranks) {}

  Traffic sizes, keys, rows, gradients;

  void add(const WorkloadTable& table, const TableLoad& load, int64_t value_bytes) {
    const auto row_bytes = static_cast<double>(table.settings.dim * value_bytes);
    const bool can_miss = table.settings.kind == TableKind::kDynamic;
    const double key_bytes = kKeyBytes + (counts_matter(table.settings) ? kCountBytes : 0);
    keys.add_to_holders(load.keys * key_bytes, load.shares);
    gradients.add_to_holders(load.keys * row_bytes, load.shares);
    if (!load.replicated)
      rows.add_from_holders(load.keys * (row_bytes + (can_miss ? kAbsentBytes : 0)), load.shares);
    sizes.add_to_holders(kSizeBytes, std::vector<double>(load.shares.size(), 1.0));
  }
};

double CostModel::dense_sum_seconds() const {
  Traffic words(ranks_);
  words.add_to_holders(kStepWordBytes, std::vector<double>(static_cast<size_t>(ranks_), 1.0));
  const double values = static_cast<double>(workload_.dense_values * workload_.shards);
  if (ranks_ == profile_.ranks()) return 2 * exchange_(words) + profile_.dense_sum.at(values);
  // Two exchanges of a slice for every rank.
  Traffic slices(ranks_);
  slices.add_to_holders(values * kFloat / ranks_,
                        std::vector<double>(static_cast<size_t>(ranks_), 1.0));
  return 2 * exchange_(words) + 2 * exchange_(slices);
}

Prediction CostModel::predict(const std::vector<const TableLoad*>& loads) const {
  const auto count = static_cast<size_t>(ranks_);
  Prediction found;
  found.bytes.assign(count, {.dense = static_cast<double>(workload_.dense_bytes)});
  found.work.assign(count, 0.0);
  std::vector<double> gather(count), update(count), gather_alone(count), update_alone(count);
  std::vector<Exchanges> exchanges(workload_.lookups, Exchanges(ranks_));
  for (size_t t = 0; t < loads.size(); ++t) {
    const TableLoad& load = *loads[t];
    for (size_t r = 0; r < count; ++r) {
      gather[r] += load.gather[r];
      update[r] += load.update[r];
      gather_alone[r] += load.gather_alone[r];
      update_alone[r] += load.update_alone[r];
      found.bytes[r].tables += load.bytes[r].tables;
      found.bytes[r].exchange += load.bytes[r].exchange;
    }
    exchanges[workload_.tables[t].lookup].add(workload_.tables[t], load, workload_.value_bytes);
  }
  for (size_t r = 0; r < count; ++r) found.work[r] = gather[r] + update[r];
  StepParts& seconds = found.seconds;
  for (const Exchanges& each : exchanges) {
    seconds.keys += exchange_(each.sizes) + exchange_(each.keys);
    seconds.rows += exchange_(each.rows);
    seconds.gradients += exchange_(each.gradients);
  }
  seconds.gather = time_of_ranks(gather, gather_alone, host_of_rank_);
  seconds.update = time_of_ranks(update, update_alone, host_of_rank_);
  const auto rows = static_cast<double>(workload_.rows);
  const auto shards = static_cast<double>(workload_.shards);
  seconds.requests = shards * profile_.pass.requests.at(rows);
  seconds.dense = shards * profile_.pass.dense.at(rows);
  seconds.sums = shards * profile_.pass.sums.at(rows);
  seconds.dense_sum = dense_sum_seconds();
  return found;
}

Prediction CostModel::predict(const ShardPlan& plan) const {
  std::vector<TableLoad> loads;
  for (size_t t = 0; t < workload_.tables.size(); ++t)
    loads.push_back(load_of(t, plan.of(workload_.tables[t].settings.name)));
  std::vector<const TableLoad*> pointers;
  for (const TableLoad& load : loads) pointers.push_back(&load);
  return predict(pointers);
}

CostModel CostModel::with(const Workload& workload) const {
  CostModel other = *this;
  other.workload_ = workload;
  return other;
}

}  // namespace emblem
