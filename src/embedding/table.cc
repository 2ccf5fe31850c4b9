#include "embedding/table.h"

#include <algorithm>

#include "embedding/bins.h"
#include "embedding/rows_ref.h"

namespace emblem {
namespace {

void check(const TableSettings& settings) {
  const std::string& name = settings.name;
  EMBLEM_REQUIRE(settings.dim > 0, "table ", name, ": the dimension is ", settings.dim,
                 ", but must be at least 1");
  EMBLEM_REQUIRE(settings.capacity >= 0 && settings.capacity < int64_t{kNoRow}, "table ", name,
                 ": capacity ", settings.capacity, " is not in [0, ", kNoRow,
                 "); lower num_buckets, hash_bucket_size or max_capacity");
  EMBLEM_REQUIRE(
      settings.admission_threshold >= 0 && settings.admission_threshold < int64_t{kNoRow}, "table ",
      name, ": admission threshold ", settings.admission_threshold, " is not in [0, ", kNoRow, ")");
  EMBLEM_REQUIRE(settings.admission_capacity >= 0 && settings.initial_capacity >= 0, "table ", name,
                 ": a capacity is negative");
  EMBLEM_REQUIRE(settings.bins >= 0 && settings.bins <= kMostBins &&
                     (settings.bins & (settings.bins - 1)) == 0,
                 "table ", name, ": ", settings.bins, " bins, expected a power of two up to ",
                 kMostBins);
  EMBLEM_REQUIRE(settings.bins == 0 || is_whole_bins(settings.held, settings.bins), "table ", name,
                 ": parts ", to_string(settings.held), " are not whole bins, of which it has ",
                 settings.bins);
  if (settings.kind == TableKind::kDynamic) return;
  EMBLEM_REQUIRE(settings.capacity > 0, "table ", name,
                 ": a static table needs a number of rows (num_buckets or hash_bucket_size)");
  EMBLEM_REQUIRE(settings.eviction == Eviction::kNone && settings.admission_threshold <= 1,
                 "table ", name,
                 ": a static table has neither eviction nor admission; make it dynamic");
}

const TableSettings& checked(const TableSettings& settings) {
  check(settings);
  return settings;
}

}  // namespace

Table::Table(TableSettings settings)
    : settings_(checked(settings)),
      state_floats_(emblem::state_floats(settings_.rule, settings_.dim)) {}

bool Table::contains(int64_t key) const {
  std::vector<float> weights(dim());
  return read(key, weights);
}

void Table::check_room(std::span<float> weights, std::span<float> state) const {
  EMBLEM_REQUIRE(static_cast<int64_t>(weights.size()) == dim() &&
                     (state.empty() || static_cast<int64_t>(state.size()) == state_floats_),
                 "table ", settings_.name, ": read needs room for ", dim(), " weights and ",
                 state_floats_, " floats of state, not ", weights.size(), " and ", state.size());
}

void Table::check_rows(const RowBatch& batch) const {
  const auto count = static_cast<int64_t>(batch.keys.size());
  const auto has = [&](auto& values, int64_t each) {
    return static_cast<int64_t>(values.size()) == count * each;
  };
  EMBLEM_REQUIRE(has(batch.weights, dim()), "table ", settings_.name, ": ", count,
                 " keys of dimension ", dim(), " need ", count * dim(), " weights, not ",
                 batch.weights.size());
  EMBLEM_REQUIRE(batch.states.empty() || has(batch.states, state_floats_), "table ", settings_.name,
                 ": ", count, " keys need ", count * state_floats_, " floats of state, not ",
                 batch.states.size());
  EMBLEM_REQUIRE(batch.scores.empty() || has(batch.scores, 1), "table ", settings_.name, ": ",
                 count, " keys need ", count, " scores, not ", batch.scores.size());
  if (is_static())
    for (const int64_t key : batch.keys)
      if (key < 0 || key >= settings_.capacity) refuse({&key, 1});
  for (size_t i = 0; i < batch.scores.size(); ++i)
    EMBLEM_REQUIRE(batch.scores[i] != kUnused, "table ", settings_.name, ": ", batch.scores[i],
                   " of key ", batch.keys[i], " is not a score");
}

void Table::check_scores(int64_t score) const {
  EMBLEM_REQUIRE(settings_.eviction == Eviction::kCustom, "table ", settings_.name,
                 ": scores are given from outside only with custom eviction");
  EMBLEM_REQUIRE(score != kUnused, "table ", settings_.name, ": ", score, " is not a score");
}

void Table::check_dynamic() const {
  EMBLEM_REQUIRE(!is_static(), "table ", settings_.name,
                 ": keys of a static table cannot be erased");
}

void refuse_static_key(const std::string& table, int64_t rows, int64_t key) {
  throw Error(ErrorCode::kInvalidArgument,
              cat("table ", table, ": key ", key, " is outside [0, ", rows,
                  "): raise num_buckets, use hash_bucket_size, or make the table dynamic"));
}

void Table::refuse(std::span<const int64_t> keys) const {
  for (const int64_t key : keys) {
    if (key < 0 || key >= settings_.capacity)
      refuse_static_key(settings_.name, settings_.capacity, key);
  }
  throw Error(ErrorCode::kInternal, cat("table ", settings_.name, ": no key to refuse"));
}

bool Table::evicts_in_bins() const {
  return settings_.bins > 0 && settings_.eviction != Eviction::kNone && settings_.capacity > 0;
}

void Table::refuse_batch(int32_t bin, int64_t keys) const {
  const HeldBins held = held_bins(settings_);
  const std::string of_bin = evicts_in_bins() ? cat(" of bin ", held.first + bin, " of ",
                                                    settings_.bins, ", whose share of")
                                              : ", but";
  const int64_t share = settings_.capacity / (evicts_in_bins() ? std::max(held.count, 1) : 1);
  throw Error(ErrorCode::kInvalidArgument,
              cat("table ", settings_.name, ": a batch has ", keys, " distinct keys", of_bin,
                  " the capacity is ", share, ": raise the capacity or lower the batch size"));
}

float Table::first_state() const {
  const bool accumulates = std::holds_alternative<AdaGrad>(settings_.rule) ||
                           std::holds_alternative<RowWiseAdaGrad>(settings_.rule);
  return accumulates ? settings_.initial_accumulator : 0.0f;
}

}  // namespace emblem
