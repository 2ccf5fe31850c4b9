#include "ps/tables/promotion_queue.h"

#include "core/system/caught_error.h"
#include "core/threads/start_thread.h"
#include "emblem/error.h"
#include "ps/tables/served_table.h"

namespace emblem {

PromotionQueue::PromotionQueue(size_t most_floats)
    : most_floats_(most_floats), thread_(start_thread("rows from L3 to L2", [this] { work(); })) {}

PromotionQueue::~PromotionQueue() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PromotionQueue::add(std::weak_ptr<ServedTable> table, int64_t dim,
                         std::span<const int64_t> keys, std::span<const float> rows,
                         std::span<const uint8_t> found, uint64_t version) {
  const auto width = static_cast<size_t>(dim);
  {
    std::lock_guard lock(mutex_);
    if (floats_ + keys.size() * width > most_floats_) return;
  }
  Item item{std::move(table), {}, {}, version};
  for (size_t i = 0; i < keys.size(); ++i) {
    if (found[i] == 0) continue;
    item.keys.push_back(keys[i]);
    item.rows.insert(item.rows.end(), rows.begin() + i * width, rows.begin() + (i + 1) * width);
  }
  const size_t floats = item.rows.size();
  std::lock_guard lock(mutex_);
  items_.push_back(std::move(item));
  floats_ += floats;
  changed_.notify_all();
}

void PromotionQueue::wait_until_empty() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return floats_ == 0; });
}

void PromotionQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !items_.empty(); });
    if (stop_) return;
    const Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    try {
      if (const auto table = item.table.lock()) table->promote(item.keys, item.rows, item.version);
    } catch (...) {  // L2 is down, say: the rows stay where they are, in L3
      debug_caught("rows found in L3 cannot be put into L2");
    }
    lock.lock();
    floats_ -= item.rows.size();
    changed_.notify_all();
  }
}

}  // namespace emblem
