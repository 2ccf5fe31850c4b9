#include "store/redis_lock.h"

#ifdef EMBLEM_WITH_REDIS

#include <random>

#include "core/caught_error.h"

namespace emblem {
namespace {

constexpr std::string_view kRenew =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then "
    "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
constexpr std::string_view kRelease =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

// Different for every attempt of every process.
std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) token += cat(std::hex, device());
  return token;
}

class RedisLock final : public StoreLock {
 public:
  RedisLock(std::shared_ptr<RedisCluster> cluster, const std::string& name,
            std::chrono::milliseconds lease)
      : cluster_(std::move(cluster)),
        key_(cat("emblem_lock{", name, "}")),
        token_(random_token()),
        lease_(std::to_string(lease.count())) {}

  ~RedisLock() override {
    if (!held_) return;
    try {
      call({redis_command({"EVAL", kRelease, "1", key_, token_})});
    } catch (...) {  // it expires
      debug_caught("redis: a lock cannot be released");
    }
  }

  // Asks who has it in the same round trip: should SET be sent a second time because its reply was
  // lost, it fails, and the lock is held all the same.
  bool try_take() {
    std::string owner;
    call({redis_command({"SET", key_, token_, "NX", "PX", lease_}), redis_command({"GET", key_})},
         [&](const RedisItem& item) { owner = item.text; });
    held_ = owner == token_;
    return held_;
  }

  bool renew() override {
    int64_t renewed = 0;
    call({redis_command({"EVAL", kRenew, "1", key_, token_, lease_})},
         [&](const RedisItem& item) { renewed = item.number; });
    held_ = renewed == 1;
    return held_;
  }

 private:
  // `take` gets the reply to each command in turn.
  void call(
      std::vector<std::string> commands,
      const std::function<void(const RedisItem&)>& take = [](const RedisItem&) {}) {
    std::vector<RedisTask> tasks;
    for (std::string& command : commands) {
      tasks.push_back({redis_slot(key_), std::move(command),
                       [&](const RedisItem& item, RedisConnection&, Deadline) { take(item); }});
    }
    cluster_->run(tasks);
  }

  const std::shared_ptr<RedisCluster> cluster_;
  const std::string key_, token_, lease_;
  bool held_ = false;
};

}  // namespace

std::unique_ptr<StoreLock> try_redis_lock(std::shared_ptr<RedisCluster> cluster,
                                          const std::string& name,
                                          std::chrono::milliseconds lease) {
  auto lock = std::make_unique<RedisLock>(std::move(cluster), name, lease);
  if (!lock->try_take()) return nullptr;
  return lock;
}

}  // namespace emblem

#endif
