#include "ps/tables/table_lock.h"

namespace emblem {

using Clock = std::chrono::steady_clock;

TableLock::TableLock(std::unique_ptr<LeasedLock> lock, std::string model)
    : lock_(std::move(lock)), model_(std::move(model)), renewed_(Clock::now()) {}

std::unique_ptr<TableLock> TableLock::try_take(SharedKvStore& redis, const std::string& model) {
  auto lock = redis.try_lock("tables." + model, kLease);
  if (lock == nullptr) return nullptr;
  return std::unique_ptr<TableLock>(new TableLock(std::move(lock), model));
}

void TableLock::keep() {
  std::lock_guard guard(mutex_);
  const auto now = Clock::now();
  if (now - renewed_ < kLease / 4) return;
  if (!lock_->renew()) {
    throw TableLockLost(ErrorCode::kUnavailable,
                        cat("another server has taken over the tables of model ", model_,
                            " in redis, because this one was too slow"));
  }
  renewed_ = now;
}

}  // namespace emblem
