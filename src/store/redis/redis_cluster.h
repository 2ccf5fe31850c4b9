// store/redis/redis_cluster.h - commands to the nodes that hold their keys, in a Redis Cluster or
// on a single server, which is then the only node.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "store/redis/redis_node.h"

namespace emblem {

inline constexpr int kRedisSlots = 16384;

// The slot of a key: of the text in its first {} if there is any, else of all of it.
uint16_t redis_slot(std::string_view key);

// A command and what is done with its reply. It may be sent twice when a connection breaks, and so
// must be one that can be repeated.
struct RedisTask {
  uint16_t slot = 0;
  std::string command;
  // Takes the reply, which begins with `first`; reads from the connection exactly what follows.
  std::function<void(const RedisItem& first, RedisConnection& connection, Deadline deadline)> take;
  // Called instead where the key holds something that the command is not for; without it, that is
  // an error (kCorruption).
  std::function<void()> has_wrong_type{};
};

// Thread-safe.
class RedisCluster {
 public:
  explicit RedisCluster(RedisSettings settings);

  const RedisSettings& settings() const { return settings_; }
  // Sends all commands, then takes all replies: one round trip to each node, the nodes at the same
  // time. Throws kUnavailable when a node cannot be asked or refuses, in which case replies of
  // others may have been taken. A command is not sent any more once request_timeout_ms have passed.
  void run(std::vector<RedisTask>& tasks);

 private:
  struct Pending {
    RedisTask* task;
    RedisNode* asked = nullptr;  // a node that holds the key during a move
  };
  // Commands that were sent to one node and wait for their replies.
  struct Pipeline {
    RedisNode* node;
    RedisNode::Lease lease;
    std::vector<Pending> pending;
  };
  using Retry = std::vector<Pending>;

  void run_once(std::vector<RedisTask>& tasks, Deadline deadline, bool& used_before);
  std::vector<Pipeline> send(std::vector<Pending>& pending, Deadline deadline, bool& used_before);
  void receive(Pipeline& pipeline, Deadline deadline, Retry& retry);
  void refused(const Pipeline& pipeline, Pending pending, std::string_view reason, Retry& retry);
  RedisNode& node(const RedisEndpoint& endpoint);
  RedisNode& owner(uint16_t slot) const;
  void learn_slots(Deadline deadline);
  void learn_slots_from(RedisNode& node, Deadline deadline);
  std::vector<RedisNode*> known_nodes() const;

  const RedisSettings settings_;
  std::unique_ptr<ClientTlsContext> tls_;
  HostResolver resolver_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::unique_ptr<RedisNode>> nodes_;  // by "host:port"; none ever goes
  std::vector<RedisNode*> slots_;
  std::atomic<bool> slots_known_{false};
};

}  // namespace emblem
