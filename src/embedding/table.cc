#include "embedding/table.h"

#include <algorithm>
#include <cstring>

#include "core/thread_pool.h"
#include "embedding/gather_pool.h"
#include "embedding/initialize_rows.h"

namespace emblem {
namespace {

constexpr int64_t kMetaSlab = 1 << 17;

int64_t admission_capacity(const TableSettings& settings) {
  return settings.admission_capacity != 0 ? settings.admission_capacity : settings.capacity;
}

void check(const TableSettings& settings) {
  const std::string& name = settings.name;
  EMBLEM_REQUIRE(settings.dim > 0, "table ", name, ": the dimension is ", settings.dim,
                 ", but must be at least 1");
  EMBLEM_REQUIRE(settings.capacity >= 0 && settings.capacity < int64_t{kNoRow}, "table ", name,
                 ": capacity ", settings.capacity, " is not in [0, ", kNoRow, ")");
  EMBLEM_REQUIRE(
      settings.admission_threshold >= 0 && settings.admission_threshold < int64_t{kNoRow}, "table ",
      name, ": admission threshold ", settings.admission_threshold, " is not in [0, ", kNoRow, ")");
  EMBLEM_REQUIRE(settings.admission_capacity >= 0 && settings.initial_capacity >= 0, "table ", name,
                 ": a capacity is negative");
  if (settings.kind == TableKind::kDynamic) return;
  EMBLEM_REQUIRE(settings.capacity > 0, "table ", name,
                 ": a static table needs a number of rows (num_buckets or hash_bucket_size)");
  EMBLEM_REQUIRE(settings.eviction == Eviction::kNone && settings.admission_threshold <= 1,
                 "table ", name,
                 ": a static table has neither eviction nor admission; make it dynamic");
}

// What a new row's optimizer state is filled with.
float first_state(const TableSettings& settings) {
  const bool accumulates = std::holds_alternative<AdaGrad>(settings.rule) ||
                           std::holds_alternative<RowWiseAdaGrad>(settings.rule);
  return accumulates ? settings.initial_accumulator : 0.0f;
}

const TableSettings& checked(const TableSettings& settings) {
  check(settings);
  return settings;
}

}  // namespace

Table::Table(const Context& context, TableSettings settings)
    : settings_(checked(settings)),
      state_floats_(emblem::state_floats(settings_.rule, settings_.dim)),
      rows_(make_rows()),
      meta_(sizeof(Meta), kMetaSlab),
      index_(is_static() ? 0 : settings_.initial_capacity),
      admission_(settings_.admission_threshold, admission_capacity(settings_)) {
  if (!is_static()) return;
  InitializeRows op{.rows = rows_.ref(),
                    .count = settings_.capacity,
                    .initializer = settings_.initializer,
                    .seed = settings_.seed,
                    .state = first_state(settings_),
                    .state_floats = state_floats_};
  initialize_rows(Context{.threads = context.threads}, op);
}

Rows Table::make_rows() const {
  return is_static() ? Rows::fixed(dim(), settings_.dtype, state_floats_, settings_.capacity)
                     : Rows(dim(), settings_.dtype, state_floats_);
}

int64_t Table::bytes() const {
  const size_t scratch =
      new_keys_.capacity() * 8 + new_counts_.capacity() * 8 + new_rows_.capacity() * 4;
  return rows_.bytes() + meta_.bytes() + index_.bytes() + admission_.bytes() + new_index_.bytes() +
         static_cast<int64_t>(scratch);
}

uint32_t Table::find(int64_t key) const {
  if (!is_static()) return index_.find(key);
  if (key < 0 || key >= settings_.capacity) refuse({&key, 1});
  return static_cast<uint32_t>(key);
}

void Table::refuse(std::span<const int64_t> keys) const {
  for (const int64_t key : keys) {
    EMBLEM_REQUIRE(key >= 0 && key < settings_.capacity, "table ", settings_.name, ": key ", key,
                   " is outside [0, ", settings_.capacity,
                   "): raise num_buckets, use hash_bucket_size, or make the table dynamic");
  }
  throw Error(ErrorCode::kInternal, cat("table ", settings_.name, ": no key to refuse"));
}

void Table::read_row(uint32_t row, float* weights, float* state) const {
  const RowsRef ref = rows_.ref();
  char* at = ref.row(row);
  with_weight_type(settings_.dtype, [&](auto type) {
    for (int64_t d = 0; d < dim(); ++d) {
      weights[d] = load_weight(reinterpret_cast<const decltype(type)*>(at) + d);
    }
  });
  if (state != nullptr) std::memcpy(state, ref.state(at), state_floats_ * sizeof(float));
}

void Table::write_row(uint32_t row, const float* weights, const float* state) {
  const RowsRef ref = rows_.ref();
  char* at = ref.row(row);
  with_weight_type(settings_.dtype, [&](auto type) {
    for (int64_t d = 0; d < dim(); ++d) {
      store_weight(reinterpret_cast<decltype(type)*>(at) + d, weights[d]);
    }
  });
  if (state != nullptr)
    std::memcpy(ref.state(at), state, state_floats_ * sizeof(float));
  else
    std::fill_n(ref.state(at), state_floats_, first_state(settings_));
}

bool Table::read(int64_t key, std::span<float> weights, std::span<float> state) const {
  EMBLEM_REQUIRE(static_cast<int64_t>(weights.size()) == dim() &&
                     (state.empty() || static_cast<int64_t>(state.size()) == state_floats_),
                 "table ", settings_.name, ": read needs room for ", dim(), " weights and ",
                 state_floats_, " floats of state, not ", weights.size(), " and ", state.size());
  const uint32_t row = find(key);
  if (row == kNoRow) return false;
  read_row(row, weights.data(), state.empty() ? nullptr : state.data());
  return true;
}

std::optional<int64_t> Table::score(int64_t key) const {
  if (is_static()) return std::nullopt;
  const uint32_t row = index_.find(key);
  if (row == kNoRow) return std::nullopt;
  return meta(row).score;
}

void Table::lookup_rows(const Context& context, std::span<const int64_t> keys, Phase phase,
                        View<float> out) {
  EMBLEM_REQUIRE(out.rows == static_cast<int64_t>(keys.size()) && out.cols == dim(), "table ",
                 settings_.name, ": output is [", out.rows, ", ", out.cols, "], but ", keys.size(),
                 " keys need [", keys.size(), ", ", dim(), "]");
  lookup_numbers_.resize(keys.size());
  const std::span<uint32_t> numbers(lookup_numbers_);
  if (is_static()) {
    for (size_t i = 0; i < keys.size(); ++i) numbers[i] = find(keys[i]);
  } else {
    find(keys, numbers);
  }
  if (!is_static() && phase == Phase::kTrain) {
    const KeyRun run{keys, numbers};
    insert_missing({&run, 1});
    initialize_new_rows(0, new_rows());
  }
  GatherPool op{.rows = rows_.ref(),
                .keys = keys.data(),
                .row_numbers = numbers.data(),
                .bags = out.rows,
                .absent = absent(phase),
                .seed = settings_.seed,
                .out = out.data,
                .out_stride = out.cols};
  gather_pool(Context{.threads = context.threads}, op);
}

int64_t Table::erase(std::span<const int64_t> keys) {
  EMBLEM_REQUIRE(!is_static(), "table ", settings_.name,
                 ": keys of a static table cannot be erased");
  int64_t erased = 0;
  for (const int64_t key : keys) {
    const uint32_t row = index_.find(key);
    if (row == kNoRow) continue;
    remove(key, row);
    ++erased;
  }
  return erased;
}

void Table::remove(int64_t key, uint32_t row) {
  index_.erase(key);
  meta(row).score = kUnused;
  rows_.give_back(row);
}

void Table::clear() {
  clock_ = next_score_ = 0;
  if (is_static()) {
    initialize_rows(Context{}, {.rows = rows_.ref(),
                                .count = settings_.capacity,
                                .initializer = settings_.initializer,
                                .seed = settings_.seed,
                                .state = first_state(settings_),
                                .state_floats = state_floats_});
    return;
  }
  rows_.clear();
  meta_.clear();
  index_.clear();
  admission_.clear();
}

void Table::initialize_new_rows(int64_t begin, int64_t end) {
  const InitializeRows op{.rows = rows_.ref(),
                          .row_numbers = new_rows_.data(),
                          .keys = new_keys_.data(),
                          .count = new_rows(),
                          .initializer = settings_.initializer,
                          .seed = settings_.seed,
                          .state = first_state(settings_),
                          .state_floats = state_floats_};
  cpu::initialize_rows(op, begin, end);
}

void Table::set_next_score(int64_t score) {
  EMBLEM_REQUIRE(settings_.eviction == Eviction::kCustom, "table ", settings_.name,
                 ": scores are given from outside only with custom eviction");
  EMBLEM_REQUIRE(score != kUnused, "table ", settings_.name, ": ", score, " is not a score");
  next_score_ = score;
}

void Table::set_score(std::span<const int64_t> keys, int64_t score) {
  EMBLEM_REQUIRE(settings_.eviction == Eviction::kCustom, "table ", settings_.name,
                 ": scores are given from outside only with custom eviction");
  EMBLEM_REQUIRE(score != kUnused, "table ", settings_.name, ": ", score, " is not a score");
  for (const int64_t key : keys) {
    if (const uint32_t row = index_.find(key); row != kNoRow) meta(row).score = score;
  }
}

}  // namespace emblem
