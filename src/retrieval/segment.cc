#include "retrieval/segment.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "core/memory/scratch_memory.h"
#include "core/threads/thread_pool.h"
#include "emblem/error.h"
#include "retrieval/device_items.h"

namespace emblem {

const cpu::TileKernel& scan_kernel() {
  const cpu::TileKernel& bf16 = cpu::tile_kernel(DType::kBf16);
  const bool rounds = std::string_view(bf16.name) == "rounding";
  return rounds ? cpu::tile_kernel(DType::kF32, cpu::Rows::kAny) : bf16;
}

ItemSegment::ItemSegment(const Context& context, ItemTable items, std::vector<int64_t> lists,
                         const cpu::TileKernel* kernel)
    : items_(std::move(items)),
      kernel_(kernel != nullptr ? kernel : &scan_kernel()),
      device_(context.device) {
  EMBLEM_REQUIRE(device_ == Device::kCpu || lists.size() == 1,
                 "an index of kind ivf_flat is searched on a CPU; use --device cpu, or kind flat");
  EMBLEM_REQUIRE(count() <= INT32_MAX, "an index holds at most ", INT32_MAX, " items, not ",
                 count());
  by_id_.resize(items_.ids.size());
  std::iota(by_id_.begin(), by_id_.end(), 0);
  std::sort(by_id_.begin(), by_id_.end(),
            [&](int32_t a, int32_t b) { return items_.ids[a] < items_.ids[b]; });
  EMBLEM_REQUIRE(by_id_.empty() || items_.ids[by_id_[0]] != INT64_MIN, "item id ", INT64_MIN,
                 " is not possible: it stands for no item in lists of ids; give another id");
  for (size_t i = 1; i < by_id_.size(); ++i)
    EMBLEM_REQUIRE(items_.ids[by_id_[i - 1]] != items_.ids[by_id_[i]], "duplicate item id ",
                   items_.ids[by_id_[i]], "; each item must be given once");
  ItemList next;
  for (const int64_t length : lists) {
    next.count = length;
    lists_.push_back(next);
    next.first += length;
    next.panels += (length + kernel_->cols - 1) / kernel_->cols * panel_bytes();
    next.bound += (length + kBoundRows - 1) / kBoundRows;
  }
  if (device_ == Device::kCpu)
    panels_ = Buffer<std::byte>(Device::kCpu, next.panels + cpu::TileKernel::kOverread);
  bounds_.resize(static_cast<size_t>(next.bound));
  pack(context);
  device_items_ = dispatch(
      device_, [] { return std::shared_ptr<const cuda::DeviceItems>(); },
      [&]() -> std::shared_ptr<const cuda::DeviceItems> {
        return std::make_shared<cuda::DeviceItems>(context, items_, bounds_);
      });
}

bool ItemSegment::rounds_to_bf16() const {
  return device_ == Device::kCpu ? kernel_->type == DType::kBf16
                                 : items_.rows.type() == DType::kF32;
}

void ItemSegment::pack(const Context& context) {
  // Rows of a list become panels in parts of kBoundRows, whole panels of all kernels.
  std::vector<std::pair<int32_t, int32_t>> parts;  // of a list
  for (size_t list = 0; list < lists_.size(); ++list)
    for (int64_t part = 0; part * kBoundRows < lists_[list].count; ++part)
      parts.emplace_back(list, part);
  parallel_for(context, static_cast<int64_t>(parts.size()), 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) pack_part(lists_[parts[i].first], parts[i].second);
  });
}

void ItemSegment::pack_part(const ItemList& list, int64_t part) {
  static thread_local ScratchMemory<float> memory;
  const int64_t dim = items_.rows.dim(), first = part * kBoundRows,
                count = std::min(kBoundRows, list.count - first);
  float* const rows = memory.take(static_cast<size_t>(count * dim));
  double error = 0.0, length = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const std::span row(rows + i * dim, static_cast<size_t>(dim));
    items_.rows.read(list.first + first + i, row.data());
    length = std::max(length, length_of(row));
    if (!rounds_to_bf16()) continue;
    double sum = 0.0;
    for (const float value : row) {
      const double moved = static_cast<double>(Bf16::from(value).to_float()) - value;
      sum += moved * moved;
    }
    error = std::max(error, std::sqrt(sum));
  }
  if (device_ == Device::kCpu)
    kernel_->pack_right({rows, count, dim, dim, 1}, kernel_->cols,
                        panels_.data() + list.panels + first / kernel_->cols * panel_bytes());
  constexpr double kUp = 1.0 + 1e-6;  // for what rounding to float takes
  bounds_[list.bound + part] = {static_cast<float>(error * kUp), static_cast<float>(length * kUp)};
}

std::optional<int64_t> ItemSegment::find(int64_t id) const {
  const auto at = std::lower_bound(by_id_.begin(), by_id_.end(), id,
                                   [&](int32_t row, int64_t key) { return items_.ids[row] < key; });
  if (at == by_id_.end() || items_.ids[*at] != id) return std::nullopt;
  return *at;
}

int64_t ItemSegment::memory_bytes() const {
  const int64_t on_device = dispatch(
      device_, [] { return int64_t{0}; }, [&] { return device_items_->memory_bytes(); });
  return on_device +
         static_cast<int64_t>(items_.rows.bytes().size() + items_.rows.scales().size_bytes()) +
         panels_.size() + count() * static_cast<int64_t>(2 * sizeof(int64_t) + sizeof(int32_t));
}

}  // namespace emblem
