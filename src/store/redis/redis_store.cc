#include "store/redis/redis_store.h"

#include <random>

#include "core/system/caught_error.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "store/redis/redis_cluster.h"
#include "store/redis/redis_table.h"

namespace emblem {

std::vector<RedisEndpoint> parse_redis_endpoints(std::string_view text) {
  std::vector<RedisEndpoint> endpoints;
  std::string commas(text);
  for (char& c : commas) c = c == ';' ? ',' : c;
  for (const std::string& item : split(commas, ',')) {
    const std::string_view part = trim(item);
    if (part.empty()) continue;
    const size_t colon = part.rfind(':');
    RedisEndpoint endpoint{.host = std::string(part.substr(0, colon))};
    if (colon != std::string_view::npos) {
      const std::string_view port = part.substr(colon + 1);
      endpoint.port = parse_number<int>(port).value_or(0);
      EMBLEM_REQUIRE(endpoint.port > 0 && endpoint.port < 65536, "redis address \"", part, "\": \"",
                     port, "\" is not a valid port; HOST:PORT is expected");
    }
    EMBLEM_REQUIRE(!endpoint.host.empty(), "redis address \"", part, "\" names no host");
    endpoints.push_back(std::move(endpoint));
  }
  EMBLEM_REQUIRE(!endpoints.empty(), "redis: no address is given; HOST:PORT is expected");
  return endpoints;
}

#ifdef EMBLEM_WITH_REDIS

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

// The key emblem_lock{NAME}, which expires.
class RedisLock final : public LeasedLock {
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

// Null when another process has it.
std::unique_ptr<LeasedLock> try_redis_lock(std::shared_ptr<RedisCluster> cluster,
                                           const std::string& name,
                                           std::chrono::milliseconds lease) {
  auto lock = std::make_unique<RedisLock>(std::move(cluster), name, lease);
  if (!lock->try_take()) return nullptr;
  return lock;
}

class RedisStore final : public SharedKvStore {
 public:
  explicit RedisStore(const RedisSettings& settings)
      : cluster_(std::make_shared<RedisCluster>(settings)) {}

  std::shared_ptr<KvTable> open(const std::string& name, int64_t dim) override {
    return open_parts(name, dim);
  }
  std::shared_ptr<PartitionedTable> open_parts(const std::string& name, int64_t dim) override {
    return std::make_shared<RedisTable>(name, dim, cluster_);
  }

  void drop(const std::string& name) override {
    std::vector<RedisTask> tasks;
    for (const std::string& hash : RedisTable::hashes_of(name, cluster_->settings().partitions)) {
      tasks.push_back({redis_slot(hash), redis_command({"DEL", hash}),
                       [](const RedisItem&, RedisConnection&, Deadline) {}});
    }
    cluster_->run(tasks);
  }

  bool persistent() const override { return true; }

  std::optional<std::string> note(const std::string& name) const override {
    std::optional<std::string> text;
    run(name, redis_command({"GET", redis_note_key(name)}), [&](const RedisItem& item) {
      text.reset();
      if (item.kind == RedisItem::Kind::kText) text = item.text;
    });
    return text;  // nothing for a key that holds something else, which set_note replaces
  }
  void set_note(const std::string& name, std::string_view text) override {
    run(name, redis_command({"SET", redis_note_key(name), text}), [](const RedisItem&) {});
  }

  std::unique_ptr<LeasedLock> try_lock(const std::string& name,
                                       std::chrono::milliseconds lease) override {
    return try_redis_lock(cluster_, name, lease);
  }

  std::string describe() const override {
    return "redis at " + cluster_->settings().endpoints.front().text();
  }

 private:
  void run(const std::string& note, std::string command,
           const std::function<void(const RedisItem&)>& take) const {
    std::vector<RedisTask> tasks = {
        {redis_slot(redis_note_key(note)), std::move(command),
         [&](const RedisItem& first, RedisConnection&, Deadline) { take(first); }, [] {}}};
    cluster_->run(tasks);
  }

  std::shared_ptr<RedisCluster> cluster_;
};

}  // namespace

std::unique_ptr<SharedKvStore> make_redis_store(const RedisSettings& settings) {
  EMBLEM_REQUIRE(!settings.endpoints.empty(), "redis: no address is given");
  EMBLEM_REQUIRE(settings.partitions >= 1, "redis: ", settings.partitions, " partitions");
  EMBLEM_REQUIRE(settings.connections_per_node >= 1, "redis: num_node_connections is ",
                 settings.connections_per_node, "; at least 1 is needed");
  EMBLEM_REQUIRE(settings.max_batch >= 1 && settings.max_batch <= 262143,
                 "redis: max_batch_size is ", settings.max_batch,
                 "; Redis takes 1 to 262143 keys per command");
  return std::make_unique<RedisStore>(settings);
}

#else

std::unique_ptr<SharedKvStore> make_redis_store(const RedisSettings&) {
  throw Error(ErrorCode::kInvalidArgument,
              "redis was asked for, but this binary was built without it (install libssl-dev and "
              "rebuild with -DEMBLEM_REDIS=ON)");
}

#endif

}  // namespace emblem
