// retrieval/segment.h - items that do not change, as searches scan them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/device/context.h"
#include "core/memory/buffer.h"
#include "kernels/cpu/tile_kernel.h"
#include "retrieval/item_rows.h"

namespace emblem {

namespace cuda {
class DeviceItems;
}

// Items with their ids, and which of up to 64 attributes each has (bit a: attribute a).
struct ItemTable {
  ItemRows rows;
  std::vector<int64_t> ids;
  std::vector<uint64_t> attributes;
};

// Consecutive rows of a segment whose panels lie one after the other.
struct ItemList {
  int64_t first = 0, count = 0;
  int64_t panels = 0;  // where they begin, in bytes
  int64_t bound = 0;   // of its first rows, in ItemSegment::bounds()
};

// For kBoundRows rows of a list: how far rounding to the panels' type moves a row, and how long one
// is, at most. The difference of a score of panels from that of rows is bounded by these.
struct ScoreBound {
  float error = 0.0f, length = 0.0f;
};

// Rows, and panels of them in the fastest type of this CPU (kernels/cpu/tile_kernel.h) for the
// first, approximate scores of a scan. Thread-safe: it never changes.
class ItemSegment {
 public:
  static constexpr int64_t kBoundRows = 256;

  // For searches on the device of `context`: on a GPU, with one list, there are no panels.
  // `lists`: how many of the rows, which are in the order of lists, each list has; one list for an
  // exact search. Panels are packed by the threads of `context`. `kernel`: null chooses one.
  ItemSegment(const Context& context, ItemTable items, std::vector<int64_t> lists,
              const cpu::TileKernel* kernel = nullptr);

  const ItemTable& items() const { return items_; }
  int64_t count() const { return items_.rows.count(); }
  std::optional<int64_t> find(int64_t id) const;  // its row

  const std::vector<ItemList>& lists() const { return lists_; }
  const std::vector<ScoreBound>& bounds() const { return bounds_; }
  const std::byte* panels() const { return panels_.data(); }
  const cpu::TileKernel& kernel() const { return *kernel_; }
  const cuda::DeviceItems* device_items() const { return device_items_.get(); }  // null: on a CPU
  int64_t panel_bytes() const { return kernel_->panel_bytes(kernel_->cols, items_.rows.dim()); }
  int64_t memory_bytes() const;

 private:
  void pack(const Context& context);
  void pack_part(const ItemList& list, int64_t part);
  bool rounds_to_bf16() const;

  ItemTable items_;
  std::vector<int32_t> by_id_;  // rows in the order of ids
  std::vector<ItemList> lists_;
  std::vector<ScoreBound> bounds_;
  Buffer<std::byte> panels_;
  const cpu::TileKernel* kernel_;
  Device device_;
  std::shared_ptr<const cuda::DeviceItems> device_items_;
};

// What scans use on this CPU: products of bf16 where it has instructions for them, else of fp32.
const cpu::TileKernel& scan_kernel();

}  // namespace emblem
