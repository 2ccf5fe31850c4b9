#include "plan/step_exchanges.h"

namespace emblem {
namespace {

constexpr double kKeyBytes = 8, kCountBytes = 4, kAbsentBytes = 1, kSizeBytes = 4;
constexpr double kFactsBytes = 16;  // of the keys of a feature that go to the owner
constexpr double kOffsetBytes = 4;

// For messages of one size to all ranks.
std::vector<double> to_all(const TableLoad& load) {
  return std::vector<double>(load.shares.size(), 1.0);
}

}  // namespace

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

}  // namespace emblem
