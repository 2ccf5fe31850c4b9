#include "train/predict/full_retrieval.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_map>

#include "config/feature/matching.h"
#include "core/system/log.h"
#include "core/system/seconds_since.h"
#include "core/text/text.h"
#include "data/format/text/csv_types.h"
#include "emblem/error.h"
#include "retrieval/index.h"
#include "train/predict/item_vectors.h"

namespace emblem {
namespace {

constexpr const char* kUserVectors = "user_tower_emb";
constexpr size_t kSearchedUsers = 1024;  // at once

// Users of the input in the order of their first rows.
struct Users {
  std::unordered_map<std::string, size_t> places;  // by name, where rows have one
  std::vector<std::vector<int64_t>> chosen, seen;
  std::vector<float> vectors;  // [users, vectors of a user, dim]
};

void sort_each(std::vector<std::vector<int64_t>>& lists) {
  for (std::vector<int64_t>& ids : lists) {
    std::ranges::sort(ids);
    const auto repeated = std::ranges::unique(ids);
    ids.erase(repeated.begin(), repeated.end());
  }
}

// Calls take(user, item, row of the batch, vectors) for the rows of a file that can be read.
template <class Take>
PredictionPass for_each_choice(RestoredModel& model, const FullRetrievalOptions& options,
                               const std::string& input, const std::vector<std::string>& filters,
                               const PassWatch& watch, const Take& take) {
  std::vector<std::string> keep = {options.item_id};
  if (!options.user_id.empty()) keep.push_back(options.user_id);
  int64_t row = 0;
  return model.predict_batches(
      input, {kUserVectors}, keep, filters, watch, [&](const Batch& batch, const auto& values) {
        const auto width = batch.rows == 0 ? 0 : values.at(0).size() / batch.rows;
        for (size_t i = 0; i < static_cast<size_t>(batch.rows); ++i) {
          ++row;
          if (!batch.bad.empty() && batch.bad[i] != 0) continue;
          const std::vector<std::string> kept = split_csv_line(batch.kept[i], ',');
          const int64_t item =
              parse_item_id(kept.at(0), options.item_id, cat(input, ", row ", row));
          take(kept.size() > 1 ? kept[1] : "", item,
               std::span(values[0]).subspan(i * width, width));
        }
      });
}

void require_rows(const PredictionPass& pass, const config::PipelineConfig& config,
                  const std::string& input) {
  const int64_t most_bad = config.data_config().max_bad_rows();
  if (pass.bad_rows > most_bad)
    throw Error(ErrorCode::kCorruption,
                cat(pass.bad_rows, " rows of ", input,
                    " cannot be read, data_config.max_bad_rows allows ", most_bad));
}

// The rows of `input`, and what their users have seen.
PredictionPass read_users(RestoredModel& model, const FullRetrievalOptions& options,
                          const PassWatch& watch, Users& users) {
  const bool has_names = !options.user_id.empty();
  const PredictionPass pass = for_each_choice(
      model, options, options.input, options.filters, watch,
      [&](const std::string& user, int64_t item, std::span<const float> vectors) {
        const auto [place, is_new] = has_names ? users.places.emplace(user, users.chosen.size())
                                               : std::pair(users.places.end(), true);
        if (is_new) {
          users.chosen.emplace_back();
          users.vectors.insert(users.vectors.end(), vectors.begin(), vectors.end());
        }
        users.chosen[has_names ? place->second : users.chosen.size() - 1].push_back(item);
      });
  require_rows(pass, model.config(), options.input);
  users.seen.resize(users.chosen.size());
  if (options.seen.empty()) return pass;
  const PredictionPass seen =
      for_each_choice(model, options, options.seen, {}, watch,
                      [&](const std::string& user, int64_t item, std::span<const float>) {
                        const auto place = users.places.find(user);
                        if (place != users.places.end()) users.seen[place->second].push_back(item);
                      });
  require_rows(seen, model.config(), options.seen);
  return pass;
}

// What a user has seen and not chosen.
std::vector<int64_t> excluded(const Users& users, size_t user) {
  std::vector<int64_t> ids;
  std::ranges::set_difference(users.seen[user], users.chosen[user], std::back_inserter(ids));
  return ids;
}

// Searches with the vectors of users `first` to `end`.
std::vector<std::vector<ScoredItem>> search_users(const Context& context, const Index& index,
                                                  const Users& users, size_t first, size_t end,
                                                  int64_t k) {
  const auto dim = static_cast<size_t>(index.settings().dim);
  const size_t of_user = users.vectors.size() / dim / users.chosen.size();
  SearchOptions search{.k = k};
  std::vector<float> vectors;
  std::vector<size_t> places;
  for (size_t user = first; user < end; ++user)
    for (size_t i = 0; i < of_user; ++i) {
      const auto vector = std::span(users.vectors).subspan((user * of_user + i) * dim, dim);
      if (of_user > 1 && length_of(vector) == 0.0) continue;
      vectors.insert(vectors.end(), vector.begin(), vector.end());
      places.push_back(user - first);
      search.exclude.push_back(excluded(users, user));
    }
  auto found = index.search(
      context, {vectors.data(), std::ssize(places), static_cast<int64_t>(dim)}, search);
  std::vector<std::vector<ScoredItem>> best(end - first);
  for (size_t i = 0; i < places.size(); ++i) add_found(std::move(found[i]), k, best[places[i]]);
  return best;
}

// All items: their vectors as they are, or encoded.
EncodedItems items_of(RestoredModel& model, const MatchingSpec& matching,
                      const FullRetrievalOptions& options, const PassWatch& watch) {
  if (!is_faiss_folder(options.items))
    return encode_items(model, options.items, {.id = options.item_id}, {}, watch);
  FaissFolder folder = read_faiss_items(options.items, matching);
  return {.ids = std::move(folder.ids), .vectors = std::move(folder.vectors), .dim = folder.dim};
}

void warn_of_missing(const Users& users, std::vector<int64_t> ids, const std::string& items) {
  std::ranges::sort(ids);
  int64_t missing = 0, all = 0;
  for (const std::vector<int64_t>& chosen : users.chosen)
    for (const int64_t id : chosen) {
      ++all;
      missing += std::ranges::binary_search(ids, id) ? 0 : 1;
    }
  if (missing > 0)
    log_warn(
        cat(missing, " of ", all, " chosen items are not in ", items, " and count as not found"));
}

}  // namespace

void check_retrieval(const FullRetrievalOptions& options) {
  EMBLEM_REQUIRE(options.seen.empty() || !options.user_id.empty(),
                 "seen items need the column of users");
  EMBLEM_REQUIRE(!options.most.empty() && std::ranges::min(options.most) >= 1,
                 "a k of metrics is below 1; expected numbers from 1, as 10,50");
}

RetrievalMetrics::RetrievalMetrics(std::vector<int64_t> most) {
  std::ranges::sort(most);
  for (const int64_t k : most)
    if (sums_.empty() || sums_.back().k != k) sums_.push_back({k});
}

void RetrievalMetrics::add(std::span<const int64_t> found, std::span<const int64_t> chosen) {
  ++users_;
  chosen_ += std::ssize(chosen);
  for (Sums& sums : sums_) {
    const int64_t last = std::min(sums.k, std::ssize(found));
    double gain = 0, best_gain = 0;
    int64_t hits = 0, first = 0;
    for (int64_t rank = 1; rank <= last; ++rank) {
      if (!std::ranges::binary_search(chosen, found[static_cast<size_t>(rank - 1)])) continue;
      if (hits++ == 0) first = rank;
      gain += 1 / std::log2(rank + 1);
    }
    const auto chosen_count = std::ssize(chosen);
    for (int64_t rank = 1; rank <= std::min(sums.k, chosen_count); ++rank)
      best_gain += 1 / std::log2(rank + 1);
    sums.recall += static_cast<double>(hits) / static_cast<double>(chosen_count);
    sums.hits += hits > 0 ? 1 : 0;
    sums.found += hits;
    sums.ndcg += gain / best_gain;
    sums.reciprocal_rank += first > 0 ? 1 / static_cast<double>(first) : 0;
  }
}

std::map<std::string, double> RetrievalMetrics::values() const {
  std::map<std::string, double> values;
  const auto users = static_cast<double>(users_);  // NaN without users
  for (const Sums& sums : sums_) {
    values[cat("full_recall@", sums.k)] = sums.recall / users;
    values[cat("full_hit_rate@", sums.k)] = sums.hits / users;
    values[cat("full_ndcg@", sums.k)] = sums.ndcg / users;
    values[cat("full_mrr@", sums.k)] = sums.reciprocal_rank / users;
    values[cat("hitrate@", sums.k)] =
        static_cast<double>(sums.found) / static_cast<double>(chosen_);
  }
  return values;
}

Evaluation evaluate_full_retrieval(const Context& context, RestoredModel& model,
                                   const FullRetrievalOptions& options, const PassWatch& watch) {
  const auto start = std::chrono::steady_clock::now();
  check_retrieval(options);
  const MatchingSpec matching = require_towers(model.config().model_config(), "a search of items");
  const EncodedItems items = items_of(model, matching, options, watch);
  Users users;
  const PredictionPass pass = read_users(model, options, watch, users);
  EMBLEM_REQUIRE(!users.chosen.empty(), options.input, " has no rows",
                 options.filters.empty() ? "" : " that fulfil the filters");
  warn_of_missing(users, items.ids, options.items);
  sort_each(users.chosen);
  sort_each(users.seen);

  const Context cpu{.threads = context.threads};
  const auto index = Index::build(
      cpu,
      {.dim = items.dim,
       .similarity =
           matching.similarity == config::COSINE ? Similarity::kCosine : Similarity::kInnerProduct},
      {.ids = items.ids, .vectors = {items.vectors.data(), std::ssize(items.ids), items.dim}});
  RetrievalMetrics metrics(options.most);
  const int64_t k = std::ranges::max(options.most);
  std::vector<int64_t> ids;
  for (size_t first = 0; first < users.chosen.size(); first += kSearchedUsers) {
    if (watch.cancel.is_cancelled())
      throw Error(ErrorCode::kCancelled, "interrupted: the evaluation is incomplete");
    const size_t end = std::min(first + kSearchedUsers, users.chosen.size());
    const auto found = search_users(cpu, *index, users, first, end, k);
    for (size_t user = first; user < end; ++user) {
      ids.clear();
      for (const ScoredItem& item : found[user - first]) ids.push_back(item.id);
      metrics.add(ids, users.chosen[user]);
    }
  }
  return {.metrics = metrics.values(),
          .rows = pass.rows,
          .bad_rows = pass.bad_rows,
          .lookups = pass.lookups,
          .seconds = seconds_since(start)};
}

}  // namespace emblem
