#include "embedding/cuda/lookup/device_lookup.h"

#include <algorithm>
#include <cstring>

#include "core/device/cuda_check.h"
#include "core/device/stream.h"
#include "embedding/cuda/lookup/fetch_uncached_rows.h"
#include "embedding/cuda/lookup/find_gather.h"
#include "embedding/cuda/lookup/lookup_scratch.cuh"
#include "embedding/cuda/lookup/stage_rows.h"
#include "embedding/cuda/table/insert_missing.h"
#include "embedding/cuda/update/deterministic_sum.h"
#include "embedding/cuda/update/group_rows.h"
#include "embedding/cuda/update/update_rows.h"
#include "embedding/rounding.h"

namespace emblem::cuda {
namespace {

constexpr uint32_t kMaxFusedLookups = 1 << 18;

bool same_rule(const Rule& a, const Rule& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        const auto& y = std::get<std::decay_t<decltype(x)>>(b);
        return std::memcmp(&x, &y, sizeof(x)) == 0;
      },
      a);
}

void check_step(const StepScalars& scalars) {
  EMBLEM_REQUIRE(scalars.step >= 1, "lookup: steps count from 1, but this is step ", scalars.step);
}

}  // namespace

// A stream that copies rows into caches, from when the stream of the caller has reached `begin`
// until `done`.
struct DeviceLookup::Prefetching {
  Stream stream{Stream::Priority::kHigh};
  Event begin, done;
  bool running = false;  // the stream of the caller does not wait for `done` yet
};

std::unique_ptr<Lookup> make_lookup(const Context& context, std::span<const LookupFeature> features,
                                    const LookupSettings& settings) {
  return std::make_unique<DeviceLookup>(context, features, settings);
}

DeviceLookup::DeviceLookup(const Context& context, std::span<const LookupFeature> features,
                           const LookupSettings& settings)
    : settings_(settings),
      scratch_(std::make_unique<Scratch>()),
      batch_(std::make_unique<BatchRef>()) {
  EMBLEM_REQUIRE(features.size() <= kMostFeatures, "lookup: ", features.size(),
                 " features are more than the ", kMostFeatures, " that a GPU lookup takes");
  for (const LookupFeature& feature : features) width_ += feature.table ? feature.table->dim() : 0;
  int64_t column = 0;
  std::vector<LaidFeature> laid;
  for (const LookupFeature& feature : features) {
    EMBLEM_REQUIRE(feature.table != nullptr, "lookup: feature ", laid.size(), " has no table");
    auto* table = dynamic_cast<DeviceTable*>(feature.table);
    EMBLEM_REQUIRE(table != nullptr, "lookup: table ", feature.table->settings().name,
                   " is not on the GPU");
    const auto found = std::find(tables_.begin(), tables_.end(), table);
    const auto number = static_cast<int>(found - tables_.begin());
    if (found == tables_.end()) tables_.push_back(table);
    const bool in_fours =
        table->dim() % 4 == 0 && (settings_.placed || (column % 4 == 0 && width_ % 4 == 0));
    feature_tables_.push_back(table);
    laid.push_back({feature.pooling, column, number, class_of(*table, in_fours)});
    column += table->dim();
  }
  // A table's segments must all be in one class: the most general of its features' shapes.
  for (LaidFeature& feature : laid) {
    for (const LaidFeature& other : laid) {
      if (other.table == feature.table && classes_[other.cls].shape > classes_[feature.cls].shape)
        feature.cls = other.cls;
    }
  }
  layout_ = BatchLayout(std::move(laid), static_cast<int>(tables_.size()),
                        static_cast<int>(classes_.size()), width_);
  BatchCounters first{};
  first.pass = 1;
  scratch_->counters = Buffer<BatchCounters>::from(context, {first});
  scratch_->tables = Buffer<DeviceTableRef>(Device::kCuda, std::max<int64_t>(1, tables_.size()));
  scratch_->norm = zeros<double>(context, kSumDoubles);
  scratch_->step = zeros<UpdateScalars>(context, kMostClasses);
  int64_t bins = 1;
  for (const DeviceTable* table : tables_)
    bins = std::max<int64_t>(bins, held_bins(table->settings()).count);
  scratch_->select = zeros<SelectScratch>(context, bins);
  scratch_->feature_counts =
      zeros<FeatureCounts>(context, std::max<int64_t>(1, static_cast<int64_t>(features.size())));
  for (const DeviceTable* table : tables_) cached_ |= table->has_cache();
  table_versions_.assign(tables_.size(), -1);
  for (const Class& of : classes_)
    partial_stride_ = std::max(partial_stride_, partial_floats(of.shape));
}

DeviceLookup::~DeviceLookup() {
  if (!prefetching_) return;
  cudaStreamSynchronize(prefetching_->stream.get());
  if (!prefetching_->running) return;
  for (DeviceTable* table : tables_) table->set_prefetch_done(nullptr);
}

int DeviceLookup::class_of(const DeviceTable& table, bool in_fours) {
  const TableSettings& settings = table.settings();
  const Class wanted{shape_of(settings.name, table.dim(), in_fours),
                     settings.dtype,
                     settings.rule,
                     settings.l2,
                     settings.trainable,
                     settings.rounding};
  for (size_t c = 0; c < classes_.size(); ++c) {
    const Class& of = classes_[c];
    if (of.shape == wanted.shape && of.dtype == wanted.dtype && same_rule(of.rule, wanted.rule) &&
        of.l2 == wanted.l2 && of.trainable == wanted.trainable && of.rounding == wanted.rounding)
      return static_cast<int>(c);
  }
  EMBLEM_REQUIRE(classes_.size() < kMostClasses, "lookup: its tables have more than ", kMostClasses,
                 " kinds of dimension, type and optimizer");
  classes_.push_back(wanted);
  return static_cast<int>(classes_.size()) - 1;
}

template <class T, class... Arguments>
void DeviceLookup::grow(const Context& context, T& scratch, int64_t positions, Arguments... rest) {
  if (positions <= scratch.positions) return;
  EMBLEM_REQUIRE(!is_capturing(context), "lookup: a pass of ", positions - kTile * kMostClasses,
                 " lookups is being captured in a graph, but there is no memory for that many yet: "
                 "run one of that size before the capture");
  wait_for_prefetch(context);
  context.synchronize();
  T larger(context, positions, rest...);
  if (captured_) retired_.push_back(std::make_shared<T>(std::move(scratch)));
  scratch = std::move(larger);
}

void DeviceLookup::make_room_to_train(const Context& context, int64_t positions) {
  grow(context, scratch_->train, positions, partial_stride_, settings_.sums);
}

void DeviceLookup::make_room_to_read(const Context& context, int64_t positions) {
  int64_t weight_bytes = 0;
  for (const DeviceTable* table : tables_)
    weight_bytes = std::max(weight_bytes, table->has_cache() ? table->weight_bytes() : 0);
  grow(context, scratch_->read, positions, weight_bytes, settings_.transfer);
}

void DeviceLookup::make_room_to_stage(const Context& context, int64_t positions) {
  if (!cached_) return;
  int64_t row_bytes = 0;
  for (const DeviceTable* table : tables_)
    row_bytes = std::max(row_bytes, table->has_cache() ? table->row_bytes() : 0);
  grow(context, scratch_->stage, positions, row_bytes, settings_.transfer);
}

// Tables may have grown since the last pass, or grow until a captured pass is replayed.
void DeviceLookup::refresh_tables(const Context& context) {
  const bool capturing = is_capturing(context);
  captured_ |= capturing;
  for (size_t t = 0; t < tables_.size(); ++t) {
    const bool same = table_versions_[t] == tables_[t]->ref_version();
    if (same && !(capturing && tables_[t]->can_grow())) continue;
    table_versions_[t] = tables_[t]->ref_version();
    ::emblem::detail::copy(context, scratch_->tables.data() + t, tables_[t]->ref(),
                           sizeof(DeviceTableRef));
  }
}

BatchRef DeviceLookup::make_batch(std::span<const FeatureKeys> features) {
  BatchRef batch = layout_.lay_out(features);
  batch.tables = scratch_->tables.data();
  batch.counters = scratch_->counters.data();
  batch.feature_counts = scratch_->feature_counts.data();
  return batch;
}

void DeviceLookup::set_output(AnyView out, BatchRef& batch) const {
  batch.bags = static_cast<uint32_t>(out.rows);
  batch.out = {out.data, out.dtype};
  if (place_type_)
    batch.place_scale = static_cast<int32_t>(size_of(*place_type_) / size_of(out.dtype));
}

void DeviceLookup::forward(const Context& context, std::span<const FeatureKeys> features,
                           Phase phase, AnyView out) {
  if (settings_.placed)
    check_placed_batch(features, feature_tables_, out);
  else
    check_batch(features, feature_tables_, width_, out);
  for (const DeviceTable* table : tables_) table->check_errors();
  wait_for_prefetch(context);
  if (phase == Phase::kTrain)
    train(context, features, out);
  else
    evaluate(context, features, out);
}

void DeviceLookup::evaluate(const Context& context, std::span<const FeatureKeys> features,
                            AnyView out) {
  make_room_to_read(context, BatchLayout::positions_of(features));
  refresh_tables(context);
  BatchRef batch = make_batch(features);
  set_output(out, batch);
  batch.rows = scratch_->read.rows.data();
  batch.uncached = scratch_->read.uncached();
  const GatherMode mode = cached_ ? GatherMode::kEvalCached : GatherMode::kEval;
  const bool bags = has_bags(features);
  gather(context, batch, mode);
  if (bags) find_rows(context, batch, mode);
  if (cached_) fetch_uncached_rows(context, batch, ref_of(scratch_->read.staging));
  if (bags) pool_bags(context, batch, mode);
}

void DeviceLookup::gather(const Context& context, const BatchRef& batch, GatherMode mode) const {
  for (size_t c = 0; c < classes_.size(); ++c)
    gather_rows(context, batch, static_cast<int>(c), classes_[c].shape, classes_[c].dtype, mode);
}

int DeviceLookup::class_of_table(int table) const {
  const std::vector<LaidFeature>& features = layout_.features();
  return std::find_if(features.begin(), features.end(),
                      [&](const LaidFeature& feature) { return feature.table == table; })
      ->cls;
}

// Copies the rows that are not cached to the device, before they are gathered.
void DeviceLookup::stage(const Context& context, const BatchRef& batch) {
  const StageScratch scratch = scratch_->stage.ref();
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (!tables_[t]->has_cache()) continue;
    stage_rows(context, batch, static_cast<int>(t), class_of_table(static_cast<int>(t)), scratch);
  }
}

void DeviceLookup::train(const Context& context, std::span<const FeatureKeys> features,
                         AnyView out) {
  ready_for_backward_ = false;
  bool dynamic = false;
  for (size_t t = 0; t < tables_.size(); ++t) {
    int64_t lookups = 0;
    for (size_t f = 0; f < features.size(); ++f)
      lookups += feature_tables_[f] == tables_[t] ? features[f].keys.size() : 0;
    tables_[t]->make_ready(context, lookups);
    dynamic |= !tables_[t]->is_static();
  }
  make_room_to_train(context, BatchLayout::positions_of(features));
  make_room_to_stage(context, BatchLayout::positions_of(features));
  refresh_tables(context);
  const bool bags = has_bags(features);
  *batch_ = make_batch(features);
  scratch_->train.add_to(*batch_);
  set_output(out, *batch_);
  const BatchRef& batch = *batch_;
  // Small batches are found, copied and marked by one kernel; large ones are marked first, because
  // too many warps would mark a frequent row at the same time.
  const bool fused = !cached_ && batch.tiles * kTile <= kMaxFusedLookups;
  if (fused) gather(context, batch, GatherMode::kTrain);
  for (size_t c = 0; !fused && c < classes_.size(); ++c)
    find_and_mark(context, batch, static_cast<int>(c));
  if (bags && fused) find_rows(context, batch, GatherMode::kTrain);
  if (dynamic) {
    InsertScratch scratch = scratch_->train.insert(scratch_->select.data());
    scratch.in_pages = std::any_of(tables_.begin(), tables_.end(), [](const DeviceTable* table) {
      return table->waits_in_pages();
    });
    insert_missing(context, batch, scratch);
  }
  if (cached_) stage(context, batch);
  if (!fused) gather(context, batch, GatherMode::kCopy);
  if (bags) pool_bags(context, batch, GatherMode::kTrain);
  if (settings_.sums == Sums::kDeterministic)
    sort_rows(context, batch, scratch_->train.sorting.data(), scratch_->train.sorting.size());
  else
    group_rows(context, batch);
  out_rows_ = out.rows;
  out_cols_ = out.cols;
  ready_for_backward_ = true;
}

// Keeps the cached rows of the next batch and copies the others into the cache, concurrently with
// what the stream of the caller still does for the current step. The next pass then finds them
// there and does all the rest: no key, score or clock changes here, so no result depends on it.
void DeviceLookup::prefetch(const Context& context, std::span<const FeatureKeys> features) {
  if (!cached_) return;
  EMBLEM_REQUIRE(features.size() == feature_tables_.size(), "lookup: keys of ", features.size(),
                 " features were given, but there are ", feature_tables_.size());
  make_room_to_read(context, BatchLayout::positions_of(features));
  make_room_to_stage(context, BatchLayout::positions_of(features));
  refresh_tables(context);
  BatchRef batch = make_batch(features);
  batch.uncached = scratch_->read.uncached();
  if (!prefetching_) prefetching_ = std::make_unique<Prefetching>();
  Prefetching& p = *prefetching_;
  Context prefetching = context;
  prefetching.stream = p.stream.get();
  p.begin.record(context.stream);
  p.begin.make_wait(prefetching.stream);
  list_prefetch_rows(prefetching, batch);
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t]->has_cache())
      prefetch_rows(prefetching, batch, static_cast<int>(t), scratch_->stage.ref());
  }
  cuda_check(
      cudaMemsetAsync(&batch.uncached.counters->rows, 0, sizeof(uint32_t), prefetching.stream),
      "zeroing");
  p.done.record(prefetching.stream);
  p.running = true;
  for (DeviceTable* table : tables_) table->set_prefetch_done(&p.done);
}

void DeviceLookup::wait_for_prefetch(const Context& context) {
  // Another lookup over the same tables may have started one, too.
  for (const DeviceTable* table : tables_) table->wait_for_prefetch(context);
  if (!prefetching_ || !prefetching_->running) return;
  prefetching_->running = false;
  for (DeviceTable* table : tables_) table->set_prefetch_done(nullptr);
}

std::vector<LookupCounts> DeviceLookup::take_counts(const Context& context) {
  EMBLEM_REQUIRE(!is_capturing(context), "lookup: take_counts cannot be captured in a CUDA graph");
  Buffer<FeatureCounts>& on_device = scratch_->feature_counts;
  std::vector<LookupCounts> counts;
  for (const FeatureCounts& of : on_device.to_host(context))
    counts.push_back({static_cast<int64_t>(of.values), static_cast<int64_t>(of.missing)});
  counts.resize(feature_tables_.size());
  cuda_check(cudaMemsetAsync(on_device.data(), 0, on_device.size() * sizeof(FeatureCounts),
                             context.stream),
             "zeroing");
  return counts;
}

void DeviceLookup::check(const Context& context) {
  wait_for_prefetch(context);
  context.synchronize();
  for (const DeviceTable* table : tables_) table->check_errors();
}

// ---- backward ----

void DeviceLookup::check_gradients(ConstAnyView gradients) const {
  EMBLEM_REQUIRE(ready_for_backward_,
                 "lookup: gradients without a training forward pass before them");
  EMBLEM_REQUIRE(gradients.rows == out_rows_ && gradients.cols == out_cols_,
                 "lookup: gradients are [", gradients.rows, ", ", gradients.cols,
                 "], but the last training pass was [", out_rows_, ", ", out_cols_, "]");
}

UpdateRows DeviceLookup::update_of(size_t cls, ConstAnyView gradients) const {
  const Class& of = classes_[cls];
  UpdateRows op;
  op.cls = static_cast<int>(cls);
  op.most = batch_->class_count[cls];
  op.in_order = settings_.sums == Sums::kDeterministic;
  op.shape = of.shape;
  op.gradients = gradients.data;
  op.gradient_type = gradients.dtype;
  op.l2 = of.l2;
  op.rule = of.rule;
  op.partials = scratch_->train.partials.data();
  op.arrivals = scratch_->train.arrivals.data();
  if (op.in_order) {
    op.positions = sorted_positions(*batch_, scratch_->train.sorting.data());
    op.squares = scratch_->train.squares.data();
  }
  return op;
}

double DeviceLookup::squared_gradient_norm(const Context& context, ConstAnyView gradients) {
  check_gradients(gradients);
  Buffer<double>& norm = scratch_->norm;
  cuda_check(cudaMemsetAsync(norm.data(), 0, sizeof(double), context.stream), "zeroing");
  for (size_t c = 0; c < classes_.size(); ++c) {
    if (classes_[c].trainable)
      add_squared_norm(context, *batch_, update_of(c, gradients), norm.data());
  }
  return norm.to_host(context)[0];
}

void DeviceLookup::add_squared_gradient_norm(const Context& context, ConstAnyView gradients,
                                             ExactSum& sum) {
  if (settings_.sums != Sums::kDeterministic)
    return sum.add(squared_gradient_norm(context, gradients));
  check_gradients(gradients);
  auto limbs = zeros<int64_t>(context, kLimbs);
  for (size_t c = 0; c < classes_.size(); ++c) {
    const UpdateRows op = update_of(c, gradients);
    if (classes_[c].trainable && op.most > 0)
      add_exactly(context, squares_in_order(context, *batch_, op), op.most, limbs.data());
  }
  const std::vector<int64_t> added = limbs.to_host(context);
  for (size_t i = 0; i < added.size(); ++i) sum.limbs()[i] += added[i];
}

void DeviceLookup::backward(const Context& context, ConstAnyView gradients, float scale,
                            float learning_rate, int64_t step) {
  const StepScalars scalars{scale, learning_rate, step};
  update(context, gradients, &scalars);
}

void DeviceLookup::set_step(const Context& context, const StepScalars& scalars) {
  check_step(scalars);
  UpdateScalarsOfClasses values{};
  for (size_t c = 0; c < classes_.size(); ++c)
    values[c] = values_of(at_step(classes_[c].rule, scalars.learning_rate, scalars.step),
                          scalars.scale, scalars.step);
  store_scalars(context, values, scratch_->step.data());
}

void DeviceLookup::backward_as_set(const Context& context, ConstAnyView gradients) {
  update(context, gradients, nullptr);
}

// Without scalars, the kernels read those of the last set_step when they run.
void DeviceLookup::update(const Context& context, ConstAnyView gradients,
                          const StepScalars* scalars) {
  check_gradients(gradients);
  if (scalars != nullptr) check_step(*scalars);
  captured_ |= is_capturing(context);
  for (size_t c = 0; c < classes_.size(); ++c) {
    if (!classes_[c].trainable) continue;
    UpdateRows op = update_of(c, gradients);
    if (scalars != nullptr) {
      op.scale = scalars->scale;
      op.rule = at_step(op.rule, scalars->learning_rate, scalars->step);
      if (classes_[c].rounding == Rounding::kStochastic)
        op.rounding_draw = rounding_draw(scalars->step);
    } else {
      op.values = scratch_->step.data() + c;
      // Any but kRoundToNearest; the step's own comes with the values.
      if (classes_[c].rounding == Rounding::kStochastic) op.rounding_draw = 1;
    }
    update_rows(context, *batch_, op);
    for (size_t t = 0; t < tables_.size(); ++t) {
      const DeviceTable& table = *tables_[t];
      if (class_of_table(static_cast<int>(t)) == static_cast<int>(c) &&
          table.settings().l2_on_all_rows && table.settings().l2 != 0.0f)
        update_other_rows(context, table.ref(), table.rows_end(), op);
    }
  }
  wait_for_prefetch(context);
  ready_for_backward_ = false;  // a second update with the same gradients is a mistake
}

}  // namespace emblem::cuda
