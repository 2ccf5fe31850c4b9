#include "embedding/cpu/host_lookup.h"

#include <algorithm>
#include <utility>

namespace emblem {
namespace {

constexpr int64_t kFindKeys = 2048;         // keys per task
constexpr int64_t kNewRows = 256;           // rows to initialize per task
constexpr int64_t kSegments = 512;          // rows to update per task
constexpr int64_t kBlockBytes = 128 << 10;  // bytes of output per task: stay in cache
constexpr int64_t kLeastBlocks = 4;
constexpr int64_t kOtherRows = 2048;  // rows outside the batch to update per task

bool updates_all_rows(const TableSettings& settings) {
  return settings.trainable && settings.l2_on_all_rows && settings.l2 != 0.0f;
}

uint32_t draw_of(const TableSettings& settings, int64_t step) {
  return settings.rounding == Rounding::kStochastic ? rounding_draw(step) : kRoundToNearest;
}

}  // namespace

HostLookup::HostLookup(std::span<const LookupFeature> features)
    : find_chunks_(kFindKeys),
      insert_chunks_(kNewRows),
      slice_chunks_(1),
      part_chunks_(1),
      segment_chunks_(kSegments) {
  for (const LookupFeature& feature : features) {
    EMBLEM_REQUIRE(feature.table != nullptr, "lookup: feature ", features_.size(), " has no table");
    auto* table = dynamic_cast<HostTable*>(feature.table);
    EMBLEM_REQUIRE(table != nullptr, "lookup: table ", feature.table->settings().name,
                   " is not in host memory");
    auto found = std::find(tables_.begin(), tables_.end(), table);
    const auto number = static_cast<size_t>(found - tables_.begin());
    if (found == tables_.end()) {
      tables_.push_back(table);
      groupings_.emplace_back(table->is_static() ? table->rows_end() : 0);
    }
    feature_tables_.push_back(table);
    features_.push_back({table, feature.pooling, number});
    columns_.push_back({width_, 0});
    width_ += table->dim();
  }
  for (FeaturePlace& column : columns_) column.stride = width_;
  occurrences_.resize(tables_.size());
  runs_.resize(tables_.size());
  missing_ = std::vector<std::atomic<int64_t>>(features_.size());
  counts_.resize(features_.size());
}

std::vector<LookupCounts> HostLookup::take_counts(const Context&) {
  return std::exchange(counts_, std::vector<LookupCounts>(features_.size()));
}

void HostLookup::check_offsets(std::span<const FeatureKeys> features) const {
  for (size_t f = 0; f < features.size(); ++f) {
    const View<const int32_t>& offsets = features[f].offsets;
    if (offsets.size() == 0) continue;
    const int64_t count = features[f].keys.size(), last = offsets.size() - 1;
    EMBLEM_REQUIRE(offsets.data[0] == 0 && offsets.data[last] == count &&
                       std::is_sorted(offsets.data, offsets.data + last + 1),
                   "lookup: the offsets of feature ", f, " (table ",
                   feature_tables_[f]->settings().name, ") do not rise from 0 to its ", count,
                   " keys");
  }
}

void HostLookup::forward(const Context& context, std::span<const FeatureKeys> features, Phase phase,
                         AnyView any_out) {
  const View<float> out = any_out.floats();
  check_batch(features, feature_tables_, width_, out);
  check_offsets(features);
  forward_at(context, features, phase, columns_, out.data);
}

void HostLookup::forward_at(const Context& context, std::span<const FeatureKeys> features,
                            Phase phase, std::span<const FeaturePlace> places, float* out) {
  FoundKeys& found = phase == Phase::kTrain ? train_ : eval_;
  if (phase == Phase::kTrain) backward_ = Backward::kNothing;
  found.keys.assign(features.begin(), features.end());
  found.bags = 0;
  for (const FeatureKeys& keys : features) found.bags = std::max(found.bags, bags_of(keys));
  find_rows(context, found);
  if (phase == Phase::kTrain) {
    for (HostTable* table : tables_) table->next_version();
    insert_rows(context, found);
    count_missing(context, found);
  }
  note_absent(found);
  gather(context, found, phase, places, out);
  for (size_t f = 0; f < features_.size(); ++f) {
    counts_[f].values += features[f].keys.size();
    counts_[f].missing += missing_[f].load(std::memory_order_relaxed);
  }
  if (phase == Phase::kTrain) backward_ = Backward::kForwardDone;
}

void HostLookup::find_rows(const Context& context, FoundKeys& found) {
  found.rows.resize(features_.size());
  find_chunks_.clear();
  for (size_t f = 0; f < features_.size(); ++f) {
    const int64_t count = features_[f].table->is_static() ? 0 : found.keys[f].keys.size();
    found.rows[f].resize(count);
    find_chunks_.add(count);
  }
  for (auto& missing : missing_) missing.store(0, std::memory_order_relaxed);
  find_chunks_.run(context, [&](int64_t, int64_t f, int64_t begin, int64_t end) {
    const auto count = static_cast<size_t>(end - begin);
    const std::span<uint32_t> rows(found.rows[f].data() + begin, count);
    features_[f].table->find({found.keys[f].keys.data + begin, count}, rows);
    const auto missing = std::count(rows.begin(), rows.end(), kNoRow);
    if (missing != 0) missing_[f].fetch_add(missing, std::memory_order_relaxed);
  });
}

// Counts after insertion. Where there is no admission every missing key has got a row.
void HostLookup::count_missing(const Context& context, const FoundKeys& found) {
  find_chunks_.clear();
  for (size_t f = 0; f < features_.size(); ++f) {
    const bool admits_all = features_[f].table->settings().admission_threshold <= 1;
    const bool some = missing_[f].exchange(0, std::memory_order_relaxed) != 0;
    find_chunks_.add(some && !admits_all ? static_cast<int64_t>(found.rows[f].size()) : 0);
  }
  find_chunks_.run(context, [&](int64_t, int64_t f, int64_t begin, int64_t end) {
    const uint32_t* rows = found.rows[f].data();
    missing_[f].fetch_add(std::count(rows + begin, rows + end, kNoRow), std::memory_order_relaxed);
  });
}

void HostLookup::insert_rows(const Context& context, FoundKeys& found) {
  for (auto& runs : runs_) runs.clear();
  for (size_t f = 0; f < features_.size(); ++f) {
    if (features_[f].table->is_static()) continue;
    const auto count = static_cast<size_t>(found.keys[f].keys.size());
    runs_[features_[f].table_number].push_back(
        {{found.keys[f].keys.data, count},
         {found.rows[f].data(), count},
         {found.keys[f].counts.data, static_cast<size_t>(found.keys[f].counts.size())}});
  }
  for (HostTable* table : tables_) table->forget_new_rows();
  insert_chunks_.clear();
  try {
    // Within a table new keys are inserted in order; tables are independent.
    parallel_for(context, static_cast<int64_t>(tables_.size()), 1, [&](int64_t t, int64_t) {
      if (!runs_[t].empty()) tables_[t]->insert_missing(runs_[t]);
    });
    for (const HostTable* table : tables_) insert_chunks_.add(table->new_rows());
  } catch (...) {  // the next batch finds the keys that have got a row
    for (HostTable* table : tables_) table->initialize_new_rows(0, table->new_rows());
    throw;
  }
  insert_chunks_.run(context, [&](int64_t, int64_t t, int64_t begin, int64_t end) {
    tables_[t]->initialize_new_rows(begin, end);
  });
}

void HostLookup::note_absent(const FoundKeys& found) const {
  for (size_t f = 0; f < features_.size(); ++f) {
    const View<uint8_t> absent = found.keys[f].absent;
    for (int64_t i = 0; i < absent.size(); ++i)
      absent.data[i] = !features_[f].table->is_static() && found.rows[f][i] == kNoRow;
  }
}

void HostLookup::gather(const Context& context, FoundKeys& found, Phase phase,
                        std::span<const FeaturePlace> places, float* out) {
  found.gathers.resize(features_.size());
  int64_t bag_bytes = 0;  // from one to the next
  for (size_t f = 0; f < features_.size(); ++f) {
    const auto& [table, pooling, number] = features_[f];
    const FeatureKeys& keys = found.keys[f];
    const bool is_read = places[f].first != kNotRead.first;
    bag_bytes = std::max(bag_bytes, places[f].stride * 4);
    found.gathers[f] = {.rows = table->rows(),
                        .keys = keys.keys.data,
                        .row_numbers = table->is_static() ? nullptr : found.rows[f].data(),
                        .offsets = keys.offsets.size() != 0 ? keys.offsets.data : nullptr,
                        .weights = keys.weights.size() != 0 ? keys.weights.data : nullptr,
                        .bags = is_read ? bags_of(keys) : 0,
                        .pooling = pooling,
                        .absent = table->absent(phase),
                        .seed = table->settings().seed,
                        .out = is_read ? out + places[f].first : nullptr,
                        .out_stride = places[f].stride};
  }
  bad_key_ = false;
  // Small batches make several blocks, too.
  const int64_t block = std::clamp<int64_t>(
      std::min(kBlockBytes / (bag_bytes + 1), (found.bags + kLeastBlocks - 1) / kLeastBlocks), 16,
      1024);
  parallel_for(context, found.bags, block,
               [&](int64_t begin, int64_t end) { gather_block(found, begin, end); });
  if (bad_key_) refuse_bad_keys(found);
}

void HostLookup::gather_block(const FoundKeys& found, int64_t begin, int64_t block_end) {
  for (size_t f = 0; f < features_.size(); ++f) {
    const GatherPool& op = found.gathers[f];
    const int64_t end = std::min(block_end, op.bags);
    if (begin >= end) continue;
    if (op.row_numbers == nullptr) {
      const auto end_row = static_cast<uint64_t>(features_[f].table->rows_end());
      const int64_t first = op.offsets != nullptr ? op.offsets[begin] : begin;
      const int64_t last = op.offsets != nullptr ? op.offsets[end] : end;
      bool outside = false;
      for (int64_t i = first; i < last; ++i)
        outside |= static_cast<uint64_t>(op.keys[i]) >= end_row;
      if (outside) {
        bad_key_ = true;  // refuse_bad_keys names one, independent of the order of threads
        continue;
      }
    }
    cpu::gather_pool(op, begin, end);
  }
}

void HostLookup::refuse_bad_keys(const FoundKeys& found) const {
  for (size_t f = 0; f < features_.size(); ++f) {
    const HostTable& table = *features_[f].table;
    if (!table.is_static()) continue;
    const std::span keys(found.keys[f].keys.data, static_cast<size_t>(found.keys[f].keys.size()));
    const auto bad = std::find_if(keys.begin(), keys.end(), [&](int64_t key) {
      return key < 0 || key >= table.settings().capacity;
    });
    if (bad != keys.end()) table.refuse({&*bad, 1});
  }
}

// ---- backward ----

void HostLookup::check_gradients(View<const float> gradients) const {
  check_order();
  EMBLEM_REQUIRE(gradients.rows == train_.bags && gradients.cols == width_,
                 "lookup: gradients are [", gradients.rows, ", ", gradients.cols,
                 "], but the last training found was [", train_.bags, ", ", width_, "]");
}

void HostLookup::check_order() const {
  EMBLEM_REQUIRE(backward_ != Backward::kNothing,
                 "lookup: gradients without a training forward pass before them");
}

// Groups the occurrences by row, once per training pass.
void HostLookup::group(const Context& context, std::span<const FeaturePlace> places) {
  if (backward_ == Backward::kGrouped) return;
  for (auto& list : occurrences_) list.clear();
  for (size_t f = 0; f < features_.size(); ++f) {
    const auto& [table, pooling, number] = features_[f];
    if (!table->settings().trainable) continue;
    occurrences_[number].push_back({train_.keys[f],
                                    table->is_static() ? nullptr : train_.rows[f].data(), pooling,
                                    places[f].first, places[f].stride});
  }
  slice_chunks_.clear();
  part_chunks_.clear();
  for (size_t t = 0; t < tables_.size(); ++t) {
    Grouping& grouping = groupings_[t];
    grouping.start(occurrences_[t]);
    slice_chunks_.add(grouping.parts() > 1 ? grouping.slices() : 0);
    part_chunks_.add(grouping.parts());
  }
  if (slice_chunks_.total() > 0) {
    slice_chunks_.run(context, [&](int64_t, int64_t t, int64_t slice, int64_t) {
      groupings_[t].count_slice(slice);
    });
    for (Grouping& grouping : groupings_) {
      if (grouping.parts() > 1) grouping.place_slices();
    }
    slice_chunks_.run(context, [&](int64_t, int64_t t, int64_t slice, int64_t) {
      groupings_[t].fill_slice(slice);
    });
  }
  part_chunks_.run(
      context, [&](int64_t, int64_t t, int64_t part, int64_t) { groupings_[t].group_part(part); });
  backward_ = Backward::kGrouped;
}

void HostLookup::list_segments(const float* gradients, float scale,
                               std::span<const uint8_t> counted) {
  updates_.clear();
  update_tables_.clear();
  segment_chunks_.clear();
  for (size_t t = 0; t < tables_.size(); ++t) {
    const TableSettings& settings = tables_[t]->settings();
    if (!settings.trainable || (!counted.empty() && counted[t] == 0)) continue;
    for (int64_t part = 0; part < groupings_[t].parts(); ++part) {
      updates_.push_back({tables_[t]->rows(), groupings_[t].segments(part), gradients, scale,
                          settings.l2, settings.rule, kRoundToNearest, settings.columns.first});
      update_tables_.push_back(t);
      segment_chunks_.add(updates_.back().segments.count);
    }
  }
}

void HostLookup::prepare_backward(const Context& context, ConstAnyView any_gradients) {
  const View<const float> gradients = any_gradients.floats();
  check_gradients(gradients);
  group(context, columns_);
  list_segments(gradients.data, 1.0f);
  for (const HostTable* table : tables_)
    if (updates_all_rows(table->settings()))
      in_batch_.reserve(static_cast<size_t>(table->rows_end()));
}

double HostLookup::squared_gradient_norm(const Context& context, ConstAnyView any_gradients) {
  const View<const float> gradients = any_gradients.floats();
  check_gradients(gradients);
  group(context, columns_);
  list_segments(gradients.data, 1.0f);
  norms_.assign(segment_chunks_.total(), 0.0);
  segment_chunks_.run(context, [&](int64_t chunk, int64_t list, int64_t begin, int64_t end) {
    norms_[chunk] = cpu::squared_norm(updates_[list], begin, end);
  });
  double sum = 0.0;
  for (const double norm : norms_) sum += norm;
  return sum;
}

void HostLookup::add_squared_gradient_norm(const Context& context, ConstAnyView any_gradients,
                                           ExactSum& sum) {
  const View<const float> gradients = any_gradients.floats();
  check_gradients(gradients);
  add_squared_gradient_norm_at(context, columns_, gradients.data, {}, sum);
}

void HostLookup::add_squared_gradient_norm_at(const Context& context,
                                              std::span<const FeaturePlace> places,
                                              const float* gradients,
                                              std::span<const uint8_t> counted, ExactSum& sum) {
  check_order();
  group(context, places);
  list_segments(gradients, 1.0f, counted);
  std::vector<ExactSum> sums(static_cast<size_t>(segment_chunks_.total()));
  segment_chunks_.run(context, [&](int64_t chunk, int64_t list, int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s)
      sums[static_cast<size_t>(chunk)].add(cpu::squared_norm(updates_[list], s, s + 1));
  });
  for (const ExactSum& each : sums) sum.add(each);
}

void HostLookup::backward(const Context& context, ConstAnyView any_gradients, float scale,
                          float learning_rate, int64_t step) {
  const View<const float> gradients = any_gradients.floats();
  check_gradients(gradients);
  backward_at(context, columns_, gradients.data, scale, learning_rate, step);
}

void HostLookup::backward_at(const Context& context, std::span<const FeaturePlace> places,
                             const float* gradients, float scale, float learning_rate,
                             int64_t step) {
  check_order();
  EMBLEM_REQUIRE(step >= 1, "lookup: steps count from 1, but this is step ", step);
  group(context, places);
  list_segments(gradients, scale);
  for (size_t i = 0; i < updates_.size(); ++i) {
    updates_[i].rule = at_step(updates_[i].rule, learning_rate, step);
    updates_[i].rounding_draw = draw_of(tables_[update_tables_[i]]->settings(), step);
  }
  segment_chunks_.run(context, [&](int64_t, int64_t list, int64_t begin, int64_t end) {
    cpu::segment_update(updates_[list], begin, end);
    HostTable& table = *tables_[update_tables_[list]];
    for (int64_t s = begin; s < end; ++s) table.note_change(updates_[list].segments.rows[s]);
  });
  for (size_t t = 0; t < tables_.size(); ++t) {
    const TableSettings& settings = tables_[t]->settings();
    if (updates_all_rows(settings))
      update_other_rows(context, t, at_step(settings.rule, learning_rate, step),
                        draw_of(settings, step));
  }
  backward_ = Backward::kNothing;  // a second update with the same gradients is a mistake
}

// The rows that the batch did not touch, with l2 * weight as their gradient.
void HostLookup::update_other_rows(const Context& context, size_t t, const Rule& rule,
                                   uint32_t rounding_draw) {
  const HostTable& table = *tables_[t];
  in_batch_.assign(table.rows_end(), 0);
  for (int64_t part = 0; part < groupings_[t].parts(); ++part) {
    const Segments segments = groupings_[t].segments(part);
    for (int64_t s = 0; s < segments.count; ++s) in_batch_[segments.rows[s]] = 1;
  }
  parallel_for(context, table.rows_end(), kOtherRows, [&](int64_t begin, int64_t end) {
    uint32_t rows[kOtherRows], offsets[kOtherRows + 1] = {};  // segments without occurrences
    int64_t count = 0;
    for (int64_t row = begin; row < end; ++row) {
      const auto number = static_cast<uint32_t>(row);
      if (!in_batch_[row] && table.in_use(number)) rows[count++] = number;
    }
    const SegmentUpdate update{.rows = table.rows(),
                               .segments = {rows, offsets, nullptr, nullptr, count},
                               .l2 = table.settings().l2,
                               .rule = rule,
                               .rounding_draw = rounding_draw,
                               .first_column = table.settings().columns.first};
    cpu::segment_update(update, 0, count);
  });
}

}  // namespace emblem
