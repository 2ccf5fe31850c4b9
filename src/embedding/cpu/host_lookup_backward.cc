#include <algorithm>

#include "embedding/cpu/host_lookup.h"

namespace emblem {
namespace {

constexpr int64_t kOtherRows = 2048;  // rows outside the batch to update per task

uint32_t draw_of(const TableSettings& settings, int64_t step) {
  return settings.rounding == Rounding::kStochastic ? rounding_draw(step) : kRoundToNearest;
}

}  // namespace

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
    if (settings.trainable && settings.l2_on_all_rows && settings.l2 != 0.0f) {
      update_other_rows(context, t, at_step(settings.rule, learning_rate, step),
                        draw_of(settings, step));
    }
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
