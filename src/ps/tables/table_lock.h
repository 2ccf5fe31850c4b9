// ps/tables/table_lock.h - one server at a time fills the tables of a model in a shared Redis, or
// applies deltas to them.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "store/redis/redis_store.h"

namespace emblem {

// kUnavailable: another server has the lock by now.
class TableLockLost : public Error {
 public:
  using Error::Error;
};

// Thread-safe.
class TableLock {
 public:
  // How long after the death of its holder the lock is free. Several times request_timeout_ms of
  // Redis: what was sent under the lock has arrived or failed before another server gets it.
  static constexpr std::chrono::seconds kLease{10};

  // Null when another server has it. Throws kUnavailable.
  static std::unique_ptr<TableLock> try_take(SharedKvStore& redis, const std::string& model);

  // To be called before each batch of rows that is written. Throws TableLockLost when another
  // server may have it: then nothing may be written any more.
  void keep();

 private:
  TableLock(std::unique_ptr<LeasedLock> lock, std::string model);

  const std::unique_ptr<LeasedLock> lock_;
  const std::string model_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point renewed_;
};

}  // namespace emblem
