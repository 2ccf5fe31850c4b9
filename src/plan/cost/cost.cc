#include "plan/cost/cost.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "embedding/bins.h"
#include "embedding/growth.h"
#include "embedding/row_share.h"
#include "plan/cost/traffic.h"
#include "plan/cost/workload.h"
#include "shard/sharded_lookup.h"

namespace emblem {
namespace {

// The bytes that a lookup of a model exchanges in a step.
class StepExchanges {
 public:
  // `hosts` outlives it.
  explicit StepExchanges(const HostGroups& hosts);

  void add(const WorkloadTable& table, const TableLoad& load, const Workload& workload);
  void add_seconds(const ExchangeTime& exchange, StepParts& seconds) const;

 private:
  // Exchanges between ranks and relays, where some rows come to a host once.
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

constexpr double kCountBytes = 4, kAbsentBytes = 1, kSizeBytes = 4;
constexpr double kFactsBytes = 16;  // bytes about the keys of a feature that go to the owner
constexpr double kOffsetBytes = 4;

// Shares of messages of one size to all ranks.
std::vector<double> to_all(const TableLoad& load) {
  return std::vector<double>(load.shares.size(), 1.0);
}

StepExchanges::Relayed::Relayed(const HostGroups& hosts)
    : sizes(hosts), keys(hosts), rows(hosts), gradients(hosts) {
  for (Traffic* traffic : {&sizes, &keys, &rows, &gradients}) traffic->stays_inside = true;
}

StepExchanges::Pooled::Pooled(const HostGroups& hosts)
    : facts(hosts), keys(hosts), vectors(hosts), gradients(hosts) {}

StepExchanges::StepExchanges(const HostGroups& hosts)
    : hosts_(hosts), sizes_(hosts), keys_(hosts), rows_(hosts), gradients_(hosts) {}

void StepExchanges::add_pooled(const WorkloadTable& table, const TableLoad& load,
                               int64_t value_bytes) {
  if (!pooled_) pooled_.emplace(hosts_);
  const double offsets = load.bags < load.lookups ? kOffsetBytes : 0.0;
  const auto bytes = load.bags * static_cast<double>(table.settings.dim * value_bytes);
  pooled_->facts.add(Toward::kHolders, kFactsBytes, to_all(load));
  pooled_->keys.add(Toward::kHolders, load.lookups * kKeyBytes + load.bags * offsets, load.shares);
  pooled_->vectors.add(Toward::kAskers, bytes, load.sent);
  pooled_->gradients.add(Toward::kHolders, bytes, load.sent);
}

void StepExchanges::add_relayed(const TableLoad& load, double key_bytes, double row_bytes,
                                HostDedup dedup) {
  if (!relayed_) relayed_.emplace(hosts_);
  relayed_->sizes.add_relayed(Toward::kHolders, kSizeBytes, to_all(load));
  relayed_->keys.add_relayed(Toward::kHolders, load.keys * key_bytes, load.shares);
  relayed_->rows.add_relayed(Toward::kAskers, load.keys * row_bytes, load.sent);
  if (dedup != HostDedup::kRowsAndSums) return;
  sums_by_host_ = true;
  relayed_->gradients.add_relayed(Toward::kHolders, load.keys * row_bytes, load.sent);
}

void StepExchanges::add(const WorkloadTable& table, const TableLoad& load,
                        const Workload& workload) {
  sizes_.add(Toward::kHolders, kSizeBytes, to_all(load));
  if (load.pooled_at_owner) return add_pooled(table, load, workload.value_bytes);
  const auto row_bytes = static_cast<double>(table.settings.dim * workload.value_bytes);
  const bool can_miss = table.settings.kind == TableKind::kDynamic;
  const double key_bytes = kKeyBytes + (counts_matter(table.settings) ? kCountBytes : 0);
  const bool sums = workload.host_dedup == HostDedup::kRowsAndSums;
  const std::vector<double> of_keys = sums ? load.merged : std::vector<double>();
  if (!load.merged.empty()) add_relayed(load, key_bytes, row_bytes, workload.host_dedup);
  keys_.add_merged(Toward::kHolders, load.keys * key_bytes, load.shares, of_keys);
  gradients_.add_merged(Toward::kHolders, load.keys * row_bytes, load.sent, of_keys);
  if (load.replicated) return;
  rows_.add_merged(Toward::kAskers, load.keys * row_bytes, load.sent, load.merged);
  if (can_miss)
    rows_.add_merged(Toward::kAskers, load.keys * kAbsentBytes, load.shares, load.merged);
}

void StepExchanges::add_seconds(const ExchangeTime& exchange, StepParts& seconds) const {
  seconds.keys += exchange(sizes_) + exchange(keys_);
  seconds.rows += exchange(rows_);
  seconds.gradients += exchange(gradients_);
  if (relayed_) {
    seconds.keys += exchange(relayed_->sizes) + exchange(relayed_->keys);
    seconds.rows += exchange(relayed_->rows);
  }
  if (sums_by_host_) seconds.gradients += exchange(relayed_->gradients);
  if (!pooled_) return;
  seconds.keys += exchange(pooled_->facts) + exchange(pooled_->keys);
  seconds.rows += exchange(pooled_->vectors);
  seconds.gradients += exchange(pooled_->gradients);
}

constexpr double kStepWordBytes = 64;  // what ranks tell each other of a batch, and of its losses
constexpr double kFloat = 4;

// Memory of a lookup over ranks, besides rows: the map of a batch's keys and where each is, for
// every lookup; lists of distinct keys; keys that others ask for.
constexpr double kBytesOfLookup = 52, kBytesOfKey = 38, kBytesOfRequest = 16;
constexpr double kRowsOfKey = 1, kRowsOfRequest = 1;  // a row, then its gradient
// Memory of a row of a table that evicts within bins, on a CPU: its number in the list of its bin.
// Probed tables have no bins; on a GPU the rows of a bin are next to each other.
constexpr double kBytesOfBinnedRow = 4;

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

bool evicts_in_bins(const TableSettings& settings) {
  return settings.eviction != Eviction::kNone && settings.capacity > 0 &&
         bins_of_limits(settings) > 0;
}

// The columns of a rank's slice, or all.
int64_t columns_of(const TableSettings& settings, const TableShards& shards, int rank) {
  if (shards.columns.empty()) return settings.dim;
  const int64_t slice = shards.slice_of(rank);
  if (slice == std::ssize(shards.columns)) return 0;
  return first_column_of(settings, shards, slice + 1) - first_column_of(settings, shards, slice);
}

// Rows for which a rank has memory. On a GPU, a table without a capacity grows by halves.
double rows_held(const WorkloadTable& table, const TableShards& shards, int rank,
                 const std::string& device) {
  const PartRange held = shards.held_by(rank);
  if (table.settings.kind == TableKind::kStatic)
    return static_cast<double>(local_rows(table.settings.capacity, held));
  const double share = static_cast<double>(held.count()) / kParts;
  const double keys = table.expected_keys * share;
  if (device != "cuda" || table.settings.capacity > 0) return keys;
  const double initial = static_cast<double>(table.settings.initial_capacity) * share;
  return static_cast<double>(
      device_rows_for(static_cast<int64_t>(initial), static_cast<int64_t>(keys)));
}

// Bytes of this rank's own batch, and of what it gets from others.
void add_exchange_bytes(double slices, TableLoad& load) {
  const auto ranks = static_cast<double>(load.shares.size());
  const double row_bytes = load.row_bytes;
  const double own = load.pooled_at_owner
                         ? load.lookups * slices * kKeyBytes + load.bags * row_bytes
                         : slices * (load.lookups * kBytesOfLookup + load.keys * kBytesOfKey) +
                               load.keys * kRowsOfKey * row_bytes;
  for (size_t r = 0; r < load.bytes.size(); ++r) {
    const double pooled = load.pooled_at_owner ? ranks * load.shares[r] : 0.0;
    const double columns_bytes = load.columns[r] * row_bytes;
    load.bytes[r].exchange =
        own +
        load.requests_of_rank(static_cast<int>(r)) *
            (kBytesOfRequest + kRowsOfRequest * columns_bytes) +
        pooled * (load.lookups * (kBytesOfLookup + kKeyBytes) + load.bags * columns_bytes);
  }
}

std::vector<int> host_numbers(const HostGroups& hosts, int ranks) {
  std::vector<int> result;
  for (int r = 0; r < ranks; ++r) result.push_back(static_cast<int>(hosts.host_of(r)));
  return result;
}

int ranks_of(const HostGroups& hosts) {
  size_t ranks = 0;
  for (size_t host = 0; host < hosts.hosts(); ++host) ranks += hosts.ranks_of_host(host).size();
  return static_cast<int>(ranks);
}

// Time of the ranks of one host.
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

double TableLoad::requests_of_rank(int rank) const {
  const auto r = static_cast<size_t>(rank);
  return keys * requesters[r] * shares[r];
}

double StepParts::sum() const {
  double seconds = overlap;
  for (const NamedPart& part : step_parts()) seconds += this->*part.seconds;
  return seconds;
}

double StepParts::total() const {
  double longest = 0;
  for (const NamedPart& part : step_parts()) longest = std::max(longest, this->*part.seconds);
  return std::max(sum(), longest);
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
      hosts_(rank_hosts(profile.hosts), 0),
      exchange_(measured_exchange(profile.exchange)),
      disturbed_(host_numbers(hosts_, ranks_)) {
  set_overlaps();
}

CostModel::CostModel(const MachineProfile& profile, const Workload& workload, HostGroups hosts,
                     ExchangeTime exchange)
    : profile_(profile),
      workload_(workload),
      ranks_(ranks_of(hosts)),
      hosts_(std::move(hosts)),
      exchange_(std::move(exchange)),
      disturbed_(static_cast<size_t>(ranks_)) {
  std::iota(disturbed_.begin(), disturbed_.end(), 0);
  set_overlaps();
}

// Seconds for the rows of a table, or for a slice of their columns: of a request of its holder,
// and of a lookup of the rank that pools it.
struct CostModel::RowSeconds {
  double gather = 0, update = 0, gather_alone = 0, update_alone = 0;
  double requests = 0, sums = 0;
  double bytes_per_row = 0;

  // Moves to a place between this (0) and another (1).
  void move_to(const RowSeconds& other, double part) {
    for (double RowSeconds::*value :
         {&RowSeconds::gather, &RowSeconds::update, &RowSeconds::gather_alone,
          &RowSeconds::update_alone, &RowSeconds::requests, &RowSeconds::sums,
          &RowSeconds::bytes_per_row})
      this->*value += part * (other.*value - this->*value);
  }
};

// All tables of a rank are one call, whose fixed cost they share.
CostModel::RowSeconds CostModel::seconds_of(const TableCosts& costs, const CallSize& call,
                                            double rows) {
  RowSeconds seconds{.bytes_per_row = costs.bytes_per_row};
  const double bytes = rows * costs.bytes_per_row;
  if (call.requests > 0) {
    seconds.gather = costs.gather.at(call.requests, call.distinct_share, bytes) / call.requests;
    seconds.update = costs.update.at(call.requests, call.distinct_share, bytes) / call.requests;
  }
  seconds.gather_alone = seconds.gather * costs.gather_alone_share;
  seconds.update_alone = seconds.update * costs.update_alone_share;
  if (call.lookups > 0) {
    seconds.requests = costs.requests.at(call.lookups) / call.lookups;
    seconds.sums = costs.sums.at(call.lookups) / call.lookups;
  }
  return seconds;
}

// Interpolates between the classes that were probed, in a straight line.
CostModel::RowSeconds CostModel::seconds_of_slice(const TableSettings& table, int64_t dim,
                                                  const CallSize& call, double rows) const {
  const auto [below, above] = profile_.costs_around(table, dim);
  RowSeconds seconds = seconds_of(*below, call, rows);
  if (dim < below->table.dim)
    seconds.bytes_per_row *= static_cast<double>(dim) / static_cast<double>(below->table.dim);
  const auto span = static_cast<double>(above->table.dim - below->table.dim);
  if (span > 0)
    seconds.move_to(seconds_of(*above, call, rows),
                    static_cast<double>(dim - below->table.dim) / span);
  return seconds;
}

CostModel::CallSize CostModel::call_of(const WorkloadTable& table) const {
  CallSize call;
  const auto rows = static_cast<double>(workload_.rows);
  const auto shards = static_cast<double>(workload_.shards);
  for (const WorkloadTable& each : workload_.tables) {
    if (!(class_of(each.settings) == class_of(table.settings))) continue;
    call.requests += shards * each.keys.at(rows);
    call.lookups += shards * rows * each.keys.lookups_per_row();
  }
  const double keys = shards * table.keys.at(rows);
  double asked = 0;  // keys asked by all ranks
  for (size_t host = 0; host < hosts_.hosts(); ++host) {
    const auto ranks = static_cast<double>(hosts_.ranks_of_host(host).size());
    const double near = ranks / ranks_;  // share of the keys of a host that its own ranks hold
    asked += ranks * keys * (near + (1 - near) * left_on_host(table, host));
  }
  if (keys > 0) call.distinct_share = table.keys.at(rows * shards * ranks_) / asked;
  return call;
}

TableLoad CostModel::load_of(size_t index, const TableShards& planned) const {
  const WorkloadTable& table = workload_.tables[index];
  const TableShards shards = in_whole_bins(planned, bins_of_limits(table.settings));
  if (!shards.columns.empty())
    settings_of_part(table.settings, shards, 0);  // throws where it cannot be cut
  const bool has_lists = profile_.device == "cpu" && evicts_in_bins(table.settings);
  const auto rows = static_cast<double>(workload_.rows_per_rank());
  TableLoad load{.shares = shares_of(table.settings, shards, ranks_),
                 .replicated = shards.replicated,
                 .pooled_at_owner = shards.pooled_at_owner};
  load.keys =
      static_cast<double>(workload_.shards) * table.keys.at(static_cast<double>(workload_.rows));
  load.lookups = rows * table.keys.lookups_per_row();
  load.bags = rows * table.bags_per_row();
  share_rows_of_hosts(table, load);
  const CallSize call = call_of(table);
  std::vector<RowSeconds> held;  // by rank
  for (int r = 0; r < ranks_; ++r) {
    const int64_t dim = columns_of(table.settings, shards, r);
    const double rows_here = rows_held(table, shards, r, profile_.device);
    held.push_back(seconds_of_slice(table.settings, std::max<int64_t>(1, dim), call, rows_here));
    const double requests = load.requests_of_rank(r);
    const double read = load.replicated ? load.keys : requests;  // copies update without reading
    load.columns.push_back(static_cast<double>(dim) / static_cast<double>(table.settings.dim));
    load.sent.push_back(load.columns.back() * load.shares[static_cast<size_t>(r)]);
    load.gather.push_back(read * held.back().gather);
    load.update.push_back(requests * held.back().update);
    load.gather_alone.push_back(read * held.back().gather_alone);
    load.update_alone.push_back(requests * held.back().update_alone);
    const double bytes_per_row = held.back().bytes_per_row + (has_lists ? kBytesOfBinnedRow : 0);
    load.bytes.push_back({.tables = rows_here * bytes_per_row});
  }
  const auto slices = static_cast<double>(std::max<size_t>(1, shards.columns.size()));
  load.row_bytes = static_cast<double>(table.settings.dim) * kFloat;
  add_exchange_bytes(slices, load);
  const RowSeconds whole = seconds_of(profile_.costs_of(table.settings), call, 0);
  add_pooling(whole, held, load);
  add_relays(whole.requests, whole.sums, load);
  load.holding = holding_of(planned);
  load.overlap = more_[static_cast<size_t>(load.holding)] * load.seconds;
  return load;
}

void CostModel::add_pooling(const RowSeconds& whole, const std::vector<RowSeconds>& held,
                            TableLoad& load) {
  // A rank finds the keys of each slice of columns by itself.
  double own_requests = 0, own_sums = 0;
  const bool is_cut =
      std::any_of(load.columns.begin(), load.columns.end(), [](double share) { return share < 1; });
  for (size_t r = 0; r < held.size() && is_cut && !load.pooled_at_owner; ++r) {
    own_requests += load.shares[r] * load.lookups * held[r].requests;
    own_sums += load.shares[r] * load.lookups * held[r].sums;
  }
  if (!is_cut && !load.pooled_at_owner) {
    own_requests = load.lookups * whole.requests;
    own_sums = load.lookups * whole.sums;
  }
  for (size_t r = 0; r < held.size(); ++r) {
    const auto ranks = static_cast<double>(held.size());
    const double pooled = load.pooled_at_owner ? ranks * load.shares[r] * load.lookups : 0.0;
    load.requests.push_back(own_requests + pooled * held[r].requests -
                            load.lookups * whole.requests);
    load.sums.push_back(own_sums + pooled * held[r].sums - load.lookups * whole.sums);
  }
  const auto mean = [](const std::vector<double>& of_ranks) {
    return std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0) /
           static_cast<double>(of_ranks.size());
  };
  load.seconds = mean(load.gather) + mean(load.update) + mean(load.requests) + mean(load.sums) +
                 load.lookups * (whole.requests + whole.sums);
}

double CostModel::dense_sum_seconds() const {
  Traffic words(hosts_);
  words.add(Toward::kHolders, kStepWordBytes,
            std::vector<double>(static_cast<size_t>(ranks_), 1.0));
  const double values = static_cast<double>(workload_.dense_values * workload_.shards);
  if (ranks_ == profile_.ranks()) return 2 * exchange_(words) + profile_.dense_sum.at(values);
  // Two exchanges of a slice for every rank.
  Traffic slices(hosts_);
  slices.add(Toward::kHolders, values * kFloat / ranks_,
             std::vector<double>(static_cast<size_t>(ranks_), 1.0));
  return 2 * exchange_(words) + 2 * exchange_(slices);
}

Prediction CostModel::predict(const std::vector<const TableLoad*>& loads) const {
  const auto count = static_cast<size_t>(ranks_);
  Prediction found;
  found.bytes.assign(count, {.dense = static_cast<double>(workload_.dense_bytes)});
  found.work.assign(count, 0.0);
  std::vector<double> gather(count), update(count), gather_alone(count), update_alone(count);
  std::vector<double> requests(count), sums(count);
  std::vector<StepExchanges> exchanges(workload_.lookups, StepExchanges(hosts_));
  for (size_t t = 0; t < loads.size(); ++t) {
    const TableLoad& load = *loads[t];
    for (size_t r = 0; r < count; ++r) {
      gather[r] += load.gather[r];
      update[r] += load.update[r];
      requests[r] += load.requests[r];
      sums[r] += load.sums[r];
      gather_alone[r] += load.gather_alone[r];
      update_alone[r] += load.update_alone[r];
      found.bytes[r].tables += load.bytes[r].tables;
      found.bytes[r].exchange += load.bytes[r].exchange;
    }
    exchanges[workload_.tables[t].lookup].add(workload_.tables[t], load, workload_);
  }
  for (size_t r = 0; r < count; ++r) found.work[r] = gather[r] + update[r];
  StepParts& seconds = found.seconds;
  for (const StepExchanges& each : exchanges) each.add_seconds(exchange_, seconds);
  seconds.gather = time_of_ranks(gather, gather_alone, disturbed_);
  seconds.update = time_of_ranks(update, update_alone, disturbed_);
  const auto rows = static_cast<double>(workload_.rows);
  const auto shards = static_cast<double>(workload_.shards);
  const auto with_most = [](double own, const std::vector<double>& more) {
    return std::max(0.0, own + *std::max_element(more.begin(), more.end()));
  };
  seconds.requests = with_most(shards * profile_.pass.requests.at(rows), requests);
  seconds.dense = shards * profile_.pass.dense.at(rows);
  seconds.sums = with_most(shards * profile_.pass.sums.at(rows), sums);
  seconds.dense_sum = dense_sum_seconds();
  seconds.overlap = overlap_ + mixture_seconds(loads);
  for (const TableLoad* load : loads) seconds.overlap += load->overlap;
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
  other.set_overlaps();
  return other;
}

}  // namespace emblem
