#include "train/batch_copier.h"

#include <algorithm>

#include "core/thread_pool.h"

namespace emblem::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kAtOnce = size_t{1} << 18;  // bytes that a thread copies in one go

// Calls body(view) for every part of a batch, in a fixed order.
template <class Body>
void for_each_part(const ModelBatch& batch, Body&& body) {
  body(batch.dense);
  body(batch.labels);
  body(batch.weights);
  for (const FeatureKeys& feature : batch.sparse) {
    body(feature.keys);
    body(feature.offsets);
    body(feature.weights);
  }
}

}  // namespace

BatchCopier::BatchCopier(const Context& context) : context_(context) {}

void BatchCopier::lay_out(const ModelBatch& batch) {
  pieces_.clear();
  bytes_ = 0;
  for_each_part(batch, [&](auto view) {
    const size_t bytes = static_cast<size_t>(view.size()) * sizeof(*view.data);
    pieces_.push_back({view.data, bytes, bytes_});
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  });
}

void BatchCopier::make_room(Slot& slot, size_t bytes) {
  if (slot.host != nullptr && bytes <= slot.host->bytes()) return;
  slot.consumed.synchronize();
  const size_t roomy = bytes + bytes / 4;  // numbers of keys vary
  slot.host = std::make_unique<PinnedMemory>(std::max(roomy, kAlignment));
  slot.device = Buffer<char>(Device::kCuda, static_cast<int64_t>(slot.host->bytes()));
}

// The parts of slot.batch, in the order of for_each_part.
void BatchCopier::point_at(const ModelBatch& batch, Slot& slot) const {
  size_t next = 0;
  const auto there = [&](auto view) {
    view.data = reinterpret_cast<decltype(view.data)>(slot.device.data() + pieces_[next++].begin);
    view.device = Device::kCuda;
    return view;
  };
  slot.batch.rows = batch.rows;
  slot.batch.dense = there(batch.dense);
  slot.batch.labels = there(batch.labels);
  slot.batch.weights = there(batch.weights);
  slot.keys.clear();
  for (const FeatureKeys& feature : batch.sparse) {
    FeatureKeys& keys = slot.keys.emplace_back();
    keys.keys = there(feature.keys);
    keys.offsets = there(feature.offsets);
    keys.weights = there(feature.weights);
  }
  slot.batch.sparse = slot.keys;
}

const ModelBatch& BatchCopier::copy(const ModelBatch& batch) {
  slots_[current_].consumed.record(context_.stream);  // all work on it has been enqueued
  current_ = 1 - current_;
  Slot& slot = slots_[current_];
  slot.copied.synchronize();  // or its host memory would be overwritten too early
  lay_out(batch);
  make_room(slot, bytes_);
  struct Part {
    const char* from;
    char* to;
    size_t bytes;
  };
  std::vector<Part> parts;  // small enough for all threads to have some
  for (const Piece& piece : pieces_) {
    for (size_t at = 0; at < piece.bytes; at += kAtOnce) {
      parts.push_back({static_cast<const char*>(piece.from) + at,
                       slot.host->data() + piece.begin + at, std::min(kAtOnce, piece.bytes - at)});
    }
  }
  parallel_for(context_, static_cast<int64_t>(parts.size()), 1, [&](int64_t p, int64_t) {
    std::memcpy(parts[p].to, parts[p].from, parts[p].bytes);
  });
  Context copying = context_;
  copying.stream = stream_.get();
  slot.consumed.hold_back(copying.stream);
  copy_async(copying, slot.device.data(), slot.host->data(), bytes_);
  slot.copied.record(copying.stream);
  slot.copied.hold_back(context_.stream);
  point_at(batch, slot);
  return slot.batch;
}

}  // namespace emblem::cuda
