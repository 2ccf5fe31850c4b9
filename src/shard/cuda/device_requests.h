// shard/cuda/device_requests.h - the distinct keys of a shard of a batch on a GPU, the rows that
// come for them, and the sums of their gradients.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "embedding/cuda/lookup/batch_layout.h"
#include "embedding/cuda/table/row_shape.h"
#include "embedding/lookup.h"
#include "shard/cuda/route_keys.h"

namespace emblem::cuda {

struct DeviceTableRef;
struct FeatureCounts;

// What the shards of a rank have in common. In device memory: tables, owners, feature_counts.
struct RequesterRef {
  const BatchLayout* layout = nullptr;
  const std::vector<RowShape>* shapes = nullptr;  // by class
  Sums sums = Sums::kFast;
  bool dedup = true;
  int ranks = 1;
  const DeviceTableRef* tables = nullptr;  // rows as they come: a row's number is its first element
  const OwnersRef* owners = nullptr;
  FeatureCounts* feature_counts = nullptr;
};

// Used by one thread. Everything is asynchronous.
class DeviceRequests {
 public:
  DeviceRequests();
  ~DeviceRequests();
  DeviceRequests(DeviceRequests&&) noexcept;

  // Adds the distinct keys of the features to `counts`, [ranks, tables], which are zero before. The
  // keys stay valid until the rows are summed. Keys that stand for several are sent with the sum of
  // their counts.
  void route(const Context& context, const RequesterRef& requester,
             std::span<const FeatureKeys> features, uint32_t* counts);
  void write(const Context& context, Phase phase, const WriteKeys& to);
  // Pools the rows that came, of type `rows`, into `out`. The same phase.
  void expand(const Context& context, Phase phase, DType rows, AnyView out);
  void count_missing(const Context& context, const ItemPlace* items, int64_t rank_stride,
                     const uint8_t* flags, const uint8_t* can_miss);
  // Instead, where features have FeatureKeys::absent.
  void spread_flags(const Context& context, const ItemPlace* items, int64_t rank_stride,
                    const uint8_t* flags, const uint8_t* can_miss);
  // Replaces the rows by the sums of their gradients.
  void sum_by_key(const Context& context, ConstAnyView gradients);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace emblem::cuda
