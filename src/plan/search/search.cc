#include "plan/search/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/lookup/table_placement.h"
#include "plan/cost/workload.h"

namespace emblem {
namespace {

// The ranks that hold a table that is neither over all of them by rows nor on each; 0: it is.
int holders_of(const WorkloadTable& table, int ranks) {
  if (table.allowed.rows) return 0;
  if (table.allowed.one_rank) return 1;
  const int slices = table.slices(ranks);
  return slices > 1 ? slices : 0;
}

// The `count` ranks with the fewest bytes, in order.
std::vector<int> emptiest(const std::vector<int64_t>& bytes, int count) {
  std::vector<int> ranks =
      ranks_from(0, static_cast<int>(bytes.size()), static_cast<int>(bytes.size()));
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return bytes[static_cast<size_t>(a)] < bytes[static_cast<size_t>(b)];
  });
  ranks.resize(static_cast<size_t>(count));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

constexpr double kMostPairs = 1e5;  // choices of two tables that are all tried

// What a search compares: bytes that do not fit, then the step.
struct Rating {
  int64_t misfit = 0;  // KiB
  double seconds = 0;

  // Measurements are not more exact than a ten-thousandth. Every step of a search lowers one of the
  // two, so that it ends.
  bool is_better_than(const Rating& other) const {
    if (misfit != other.misfit) return misfit < other.misfit;
    return seconds < (1 - 1e-4) * other.seconds;
  }
};

class Searcher {
 public:
  Searcher(const CostModel& model, const std::vector<MemoryPool>& pools)
      : model_(model), pools_(pools) {
    for (size_t t = 0; t < tables(); ++t) {
      candidates_.push_back(candidates_of(model.workload().tables[t], model.ranks()));
      loads_.emplace_back();
      for (const TableShards& shards : candidates_.back())
        loads_.back().push_back(model.load_of(t, shards));
    }
  }

  size_t tables() const { return model_.workload().tables.size(); }
  size_t choices_of(size_t table) const { return candidates_[table].size(); }

  Rating rate(const std::vector<size_t>& choices) {
    ++evaluated_;
    const Prediction prediction = predict(choices);
    const std::vector<double> missing = bytes_short(prediction, pools_);
    const double bytes = std::accumulate(missing.begin(), missing.end(), 0.0);
    return {static_cast<int64_t>(std::ceil(bytes / 1024)), prediction.seconds.total()};
  }

  // Moves of one and two tables until none is better.
  Rating descend(std::vector<size_t>& choices) {
    Rating best = rate(choices);
    for (bool improved = true; improved;) {
      improved = false;
      for (size_t t = 0; t < tables(); ++t) improved |= move(choices, t, best);
      if (!improved) improved = move_two(choices, best);
    }
    return best;
  }

  // Every table over all ranks, or the first of what it may be.
  std::vector<size_t> spread() const { return std::vector<size_t>(tables(), 0); }

  // The costliest tables first, each on the rank with the least work so far.
  std::vector<size_t> one_rank_each() const {
    std::vector<size_t> order(tables()), choices = spread();
    std::iota(order.begin(), order.end(), size_t{0});
    const auto work = [&](size_t t, size_t choice, size_t rank) {
      return loads_[t][choice].gather[rank] + loads_[t][choice].update[rank];
    };
    const auto weight = [&](size_t t) {
      double most = 0;
      for (size_t r = 0; r < loads_[t][0].gather.size(); ++r) most = std::max(most, work(t, 0, r));
      return most;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return weight(a) > weight(b); });
    std::vector<double> busy(static_cast<size_t>(model_.ranks()));
    for (const size_t t : order) {
      for (size_t c = 0; c < choices_of(t); ++c) {
        const int rank = rank_of(t, c);
        if (rank < 0) continue;
        const int chosen = rank_of(t, choices[t]);
        if (chosen < 0 || busy[static_cast<size_t>(rank)] < busy[static_cast<size_t>(chosen)])
          choices[t] = c;
      }
      for (size_t r = 0; r < busy.size(); ++r) busy[r] += work(t, choices[t], r);
    }
    return choices;
  }

  FoundPlan found(const std::vector<size_t>& choices) const {
    FoundPlan result{.plan = {.ranks = model_.ranks()}, .prediction = predict(choices)};
    for (size_t t = 0; t < tables(); ++t) result.plan.tables.push_back(candidates_[t][choices[t]]);
    result.plan.predicted_ms = 1e3 * result.prediction.seconds.total();
    result.evaluated = evaluated_;
    return result;
  }

 private:
  // The rank of a candidate that is on one alone; else -1.
  int rank_of(size_t table, size_t choice) const {
    const TableShards& shards = candidates_[table][choice];
    const bool is_whole = !shards.replicated && shards.columns.size() <= 1;
    for (int r = 0; is_whole && r < model_.ranks(); ++r)
      if (shards.held_by(r).is_everything()) return r;
    return -1;
  }

  Prediction predict(const std::vector<size_t>& choices) const {
    std::vector<const TableLoad*> loads;
    for (size_t t = 0; t < tables(); ++t) loads.push_back(&loads_[t][choices[t]]);
    return model_.predict(loads);
  }

  bool move(std::vector<size_t>& choices, size_t table, Rating& best) {
    const size_t before = choices[table];
    size_t chosen = before;
    for (size_t c = 0; c < choices_of(table); ++c) {
      if (c == before) continue;
      choices[table] = c;
      const Rating rating = rate(choices);
      if (!rating.is_better_than(best)) continue;
      best = rating;
      chosen = c;
    }
    choices[table] = chosen;
    return chosen != before;
  }

  // The first change of two tables that is better: all of them where there are few tables, else
  // swaps of ranks.
  bool move_two(std::vector<size_t>& choices, Rating& best) {
    size_t options = 0;
    for (size_t t = 0; t < tables(); ++t) options += choices_of(t);
    const bool are_few = static_cast<double>(options) * static_cast<double>(options) < kMostPairs;
    for (size_t a = 0; a < tables(); ++a)
      for (size_t b = a + 1; b < tables(); ++b)
        if (are_few ? try_pair(choices, a, b, best) : try_swap(choices, a, b, best)) return true;
    return false;
  }

  bool try_pair(std::vector<size_t>& choices, size_t a, size_t b, Rating& best) {
    const size_t before_a = choices[a], before_b = choices[b];
    for (choices[a] = 0; choices[a] < choices_of(a); ++choices[a])
      for (choices[b] = 0; choices[b] < choices_of(b); ++choices[b])
        if (choices[a] != before_a && choices[b] != before_b && accept(choices, best)) return true;
    choices[a] = before_a;
    choices[b] = before_b;
    return false;
  }

  bool try_swap(std::vector<size_t>& choices, size_t a, size_t b, Rating& best) {
    const bool are_alike = candidates_[a].size() == candidates_[b].size();
    if (!are_alike || rank_of(a, choices[a]) < 0 || choices[a] == choices[b]) return false;
    std::swap(choices[a], choices[b]);
    if (accept(choices, best)) return true;
    std::swap(choices[a], choices[b]);
    return false;
  }

  bool accept(const std::vector<size_t>& choices, Rating& best) {
    const Rating rating = rate(choices);
    if (!rating.is_better_than(best)) return false;
    best = rating;
    return true;
  }

  const CostModel& model_;
  const std::vector<MemoryPool>& pools_;
  std::vector<std::vector<TableShards>> candidates_;
  std::vector<std::vector<TableLoad>> loads_;
  int64_t evaluated_ = 0;
};

}  // namespace

std::optional<ShardPlan> constrained_plan(const config::PipelineConfig& config,
                                          const FeatureLayout& layout, int ranks) {
  const Workload workload = workload_of(config, layout, 1, 1);
  const std::vector<WorkloadTable>& tables = workload.tables;
  const bool matters = std::any_of(tables.begin(), tables.end(),
                                   [](const WorkloadTable& table) { return !table.allowed.rows; });
  if (ranks == 1 || !matters) return std::nullopt;
  ShardPlan plan{.ranks = ranks};
  std::vector<size_t> order;
  for (const WorkloadTable& table : tables) {
    const std::string& name = table.settings.name;
    if (holders_of(table, ranks) > 0) order.push_back(plan.tables.size());
    plan.tables.push_back(table.allowed.rows ? over_all_ranks(name, ranks) : on_every_rank(name));
  }
  const auto bytes = [&](size_t t) { return table_bytes_of(tables[t].settings); };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bytes(a) > bytes(b); });
  std::vector<int64_t> held(static_cast<size_t>(ranks));
  for (const size_t t : order) {
    const std::string& name = tables[t].settings.name;
    const std::vector<int> holders = emptiest(held, holders_of(tables[t], ranks));
    for (const int rank : holders)
      held[static_cast<size_t>(rank)] += bytes(t) / static_cast<int64_t>(holders.size());
    plan.tables[t] =
        holders.size() == 1 ? on_rank(name, holders[0], ranks) : by_columns(name, holders, ranks);
  }
  return plan;
}

std::vector<double> bytes_short(const Prediction& prediction,
                                const std::vector<MemoryPool>& pools) {
  std::vector<double> missing;
  for (const MemoryPool& pool : pools) {
    double bytes = 0;
    for (const int rank : pool.ranks) bytes += prediction.bytes[static_cast<size_t>(rank)].total();
    missing.push_back(std::max(0.0, bytes - kUsableMemory * static_cast<double>(pool.free_bytes)));
  }
  return missing;
}

std::vector<TableShards> candidates_of(const WorkloadTable& table, int ranks) {
  const std::string& name = table.settings.name;
  std::vector<TableShards> candidates;
  if (table.allowed.rows || ranks == 1) candidates.push_back(over_all_ranks(name, ranks));
  if (ranks == 1) return candidates;
  // Pooled where it is needed, and at the owner, who sends no less where a bag is one key.
  const auto add = [&](TableShards shards) {
    candidates.push_back(shards);
    if (table.keys.lookups_per_row() <= table.bags_per_row()) return;
    shards.pooled_at_owner = true;
    candidates.push_back(std::move(shards));
  };
  for (int r = 0; table.allowed.one_rank && r < ranks; ++r) add(on_rank(name, r, ranks));
  if (table.allowed.replicated) candidates.push_back(on_every_rank(name));
  const int slices = table.slices(ranks);
  const int windows = slices == 1 ? 0 : slices == ranks ? 1 : ranks;
  for (int first = 0; first < windows; ++first)
    add(by_columns(name, ranks_from(first, slices, ranks), ranks));
  return candidates;
}

FoundPlan search_plan(const CostModel& model, const std::vector<MemoryPool>& pools) {
  Searcher searcher(model, pools);
  std::vector<size_t> best = searcher.spread();
  Rating rating = searcher.descend(best);
  std::vector<size_t> other = searcher.one_rank_each();
  if (searcher.descend(other).is_better_than(rating)) best = other;
  return searcher.found(best);
}

std::optional<FoundPlan> search_all_plans(const CostModel& model,
                                          const std::vector<MemoryPool>& pools, int64_t most) {
  Searcher searcher(model, pools);
  double plans = 1;
  for (size_t t = 0; t < searcher.tables(); ++t)
    plans *= static_cast<double>(searcher.choices_of(t));
  if (plans > static_cast<double>(most)) return std::nullopt;
  std::vector<size_t> choices = searcher.spread(), best = choices;
  Rating rating = searcher.rate(best);
  for (;;) {
    size_t t = 0;
    while (t < choices.size() && ++choices[t] == searcher.choices_of(t)) choices[t++] = 0;
    if (t == choices.size()) break;
    const Rating other = searcher.rate(choices);
    if (!other.is_better_than(rating)) continue;
    rating = other;
    best = choices;
  }
  return searcher.found(best);
}

}  // namespace emblem
