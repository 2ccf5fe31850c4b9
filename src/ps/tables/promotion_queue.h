// ps/tables/promotion_queue.h - rows that lookups found in L3, on their way into L2: by one thread,
// while requests continue.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace emblem {

class ServedTable;

// Thread-safe. When it is full, rows are dropped: they will be missed again.
class PromotionQueue {
 public:
  explicit PromotionQueue(size_t most_floats = size_t{16} << 20);
  ~PromotionQueue();
  PromotionQueue(const PromotionQueue&) = delete;

  // Copies the rows that were found; `version` is the table's before they were read.
  void add(std::weak_ptr<ServedTable> table, int64_t dim, std::span<const int64_t> keys,
           std::span<const float> rows, std::span<const uint8_t> found, uint64_t version);
  void wait_until_empty();

 private:
  struct Item {
    std::weak_ptr<ServedTable> table;
    std::vector<int64_t> keys;
    std::vector<float> rows;
    uint64_t version;
  };
  void work();

  const size_t most_floats_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  size_t floats_ = 0;  // floats of items_ and the one in work
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace emblem
