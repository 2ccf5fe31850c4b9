#include "embedding/cuda/lookup/batch_layout.h"

#include <algorithm>
#include <numeric>

#include "core/math/divide.h"
#include "embedding/cuda/lookup/device_batch.cuh"

namespace emblem::cuda {
namespace {

template <class T>
const T* data_or_null(View<const T> view) {
  return view.size() != 0 ? view.data : nullptr;
}

}  // namespace

BatchLayout::BatchLayout(std::vector<LaidFeature> features, int tables, int classes, int64_t width)
    : features_(std::move(features)), tables_(tables), classes_(classes), width_(width) {
  order_.resize(features_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](size_t a, size_t b) { return features_[a].cls < features_[b].cls; });
}

int64_t BatchLayout::positions_of(std::span<const FeatureKeys> features) {
  int64_t positions = kTile * kMostClasses;
  for (const FeatureKeys& keys : features) positions += keys.keys.size();
  return positions;
}

BatchRef BatchLayout::lay_out(std::span<const FeatureKeys> features) const {
  BatchRef batch{};
  batch.table_count = tables_;
  batch.features = static_cast<int32_t>(features_.size());
  batch.classes = classes_;
  batch.width = width_;
  batch.place_scale = 1;
  uint32_t position = 0, tile = 0;
  size_t i = 0;
  for (int cls = 0; cls < batch.classes; ++cls) {  // some may have no features
    position = round_up(position, kTile);
    batch.class_first[cls] = position;
    batch.class_tile[cls] = tile;
    for (; i < order_.size() && features_[order_[i]].cls == cls; ++i) {
      const LaidFeature& of = features_[order_[i]];
      const FeatureKeys& keys = features[order_[i]];
      const auto count = static_cast<uint32_t>(keys.keys.size());
      FeatureRef& ref = batch.feature[i];
      ref.keys = keys.keys.data;
      ref.offsets = data_or_null(keys.offsets);
      ref.weights = data_or_null(keys.weights);
      ref.places = data_or_null(keys.places);
      ref.counts = data_or_null(keys.counts);
      ref.absent = keys.absent.size() != 0 ? keys.absent.data : nullptr;
      ref.first = position;
      ref.count = count;
      ref.first_tile = tile;
      ref.column = static_cast<int32_t>(of.column);
      ref.table = static_cast<int16_t>(of.table);
      ref.cls = static_cast<int8_t>(cls);
      ref.number = static_cast<uint8_t>(order_[i]);
      ref.pooling = of.pooling;
      position += count;
      tile += divide_up(count, kTile);
    }
    batch.class_count[cls] = position - batch.class_first[cls];
  }
  batch.class_tile[batch.classes] = tile;
  batch.tiles = tile;
  return batch;
}

bool has_bags(std::span<const FeatureKeys> features) {
  return std::any_of(features.begin(), features.end(), [](const FeatureKeys& keys) {
    return keys.offsets.size() != 0 || keys.weights.size() != 0;
  });
}

}  // namespace emblem::cuda
