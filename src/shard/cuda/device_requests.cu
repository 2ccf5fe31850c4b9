#include "shard/cuda/device_requests.h"

#include <algorithm>

#include "embedding/cuda/lookup/find_gather.h"
#include "embedding/cuda/lookup/lookup_scratch.cuh"
#include "embedding/cuda/update/group_rows.h"
#include "embedding/cuda/update/update_rows.h"

namespace emblem::cuda {

struct DeviceRequests::State {
  RequesterRef requester;
  BatchRef batch;
  RouteRef route{};
  bool has_bags = false;

  TrainScratch scratch;
  Buffer<uint2> holders;
  Buffer<uint32_t> sums;  // sums of counts, where some feature has them
  Buffer<BatchCounters> counters;
  uint32_t passes = 0;

  void make_room(const Context& context, int64_t positions);
  void group(const Context& context);
};

DeviceRequests::DeviceRequests() : state_(std::make_unique<State>()) {}
DeviceRequests::~DeviceRequests() = default;
DeviceRequests::DeviceRequests(DeviceRequests&&) noexcept = default;

void DeviceRequests::State::make_room(const Context& context, int64_t positions) {
  if (counters.size() == 0) {
    BatchCounters first{};
    first.pass = 1;
    counters = Buffer<BatchCounters>::from(context, {first});
  }
  if (positions <= scratch.positions) return;
  context.synchronize();
  positions += positions / 8;
  int64_t partial_stride = 0;
  for (const RowShape shape : *requester.shapes)
    partial_stride = std::max(partial_stride, partial_floats(shape));
  TrainScratch larger(context, positions, partial_stride, requester.sums);
  holders = Buffer<uint2>(Device::kCuda, positions);
  scratch = std::move(larger);
  passes = 0;
}

void DeviceRequests::route(const Context& context, const RequesterRef& requester,
                           std::span<const FeatureKeys> features, uint32_t* counts) {
  State& s = *state_;
  s.requester = requester;
  const int64_t positions = BatchLayout::positions_of(features);
  s.make_room(context, positions);
  s.has_bags = has_bags(features);
  s.batch = requester.layout->lay_out(features);
  s.batch.tables = requester.tables;
  s.batch.counters = s.counters.data();
  s.batch.feature_counts = requester.feature_counts;
  s.scratch.add_to(s.batch);
  const bool has_counts =
      std::any_of(features.begin(), features.end(),
                  [](const FeatureKeys& keys) { return keys.counts.size() != 0; });
  if (has_counts && s.sums.size() < s.holders.size())
    s.sums = Buffer<uint32_t>(Device::kCuda, s.holders.size());
  s.route = {.owners = requester.owners,
             .map = s.scratch.map.data(),
             .map_mask = static_cast<uint32_t>(s.scratch.map.size() - 1),
             .pass = ++s.passes,
             .holders = s.holders.data(),
             .counts = counts,
             .sums = has_counts ? s.sums.data() : nullptr,
             .ranks = requester.ranks,
             .dedup = requester.dedup};
  if (s.batch.tiles == 0) return;
  cuda_check(cudaMemsetAsync(s.batch.counts, 0, static_cast<size_t>(positions) * sizeof(uint32_t),
                             context.stream),
             "zeroing");
  if (has_counts)
    cuda_check(cudaMemsetAsync(s.sums.data(), 0, static_cast<size_t>(positions) * sizeof(uint32_t),
                               context.stream),
               "zeroing");
  route_keys(context, s.batch, s.route);
}

// Groups the occurrences of each key, for their gradients.
void DeviceRequests::State::group(const Context& context) {
  if (batch.tiles == 0) return;
  if (requester.sums == Sums::kDeterministic)
    sort_rows(context, batch, scratch.sorting.data(), scratch.sorting.size());
  else
    group_rows(context, batch);
}

void DeviceRequests::write(const Context& context, Phase phase, const WriteKeys& to) {
  State& s = *state_;
  if (s.batch.tiles == 0) return;
  write_keys(context, s.batch, s.route, to);
  if (phase == Phase::kTrain && !s.has_bags) s.group(context);
}

void DeviceRequests::expand(const Context& context, Phase phase, DType rows, AnyView out) {
  State& s = *state_;
  s.batch.bags = static_cast<uint32_t>(out.rows);
  s.batch.out = {out.data, out.dtype};
  s.batch.tables = s.requester.tables;
  const std::vector<RowShape>& shapes = *s.requester.shapes;
  for (size_t c = 0; c < shapes.size(); ++c)
    gather_rows(context, s.batch, static_cast<int>(c), shapes[c], rows, GatherMode::kCopy);
  if (!s.has_bags) return;
  pool_bags(context, s.batch, GatherMode::kTrain);
  if (phase == Phase::kTrain) s.group(context);  // by bags, which are known now
}

void DeviceRequests::count_missing(const Context& context, const ItemPlace* items,
                                   int64_t rank_stride, const uint8_t* flags,
                                   const uint8_t* can_miss) {
  State& s = *state_;
  cuda::count_missing(context, s.batch, s.route, items, rank_stride, flags, can_miss);
}

void DeviceRequests::spread_flags(const Context& context, const ItemPlace* items,
                                  int64_t rank_stride, const uint8_t* flags,
                                  const uint8_t* can_miss) {
  State& s = *state_;
  cuda::spread_flags(context, s.batch, s.route, items, rank_stride, flags, can_miss);
}

void DeviceRequests::sum_by_key(const Context& context, ConstAnyView gradients) {
  State& s = *state_;
  if (s.batch.tiles == 0) return;
  const std::vector<RowShape>& shapes = *s.requester.shapes;
  for (size_t c = 0; c < shapes.size(); ++c) {
    UpdateRows op;
    op.cls = static_cast<int>(c);
    op.most = s.batch.class_count[c];
    op.in_order = s.requester.sums == Sums::kDeterministic;
    op.shape = shapes[c];
    op.gradients = gradients.data;
    op.gradient_type = gradients.dtype;
    op.partials = s.scratch.partials.data();
    op.arrivals = s.scratch.arrivals.data();
    if (op.in_order) op.positions = sorted_positions(s.batch, s.scratch.sorting.data());
    store_sums(context, s.batch, op);
  }
}

}  // namespace emblem::cuda
