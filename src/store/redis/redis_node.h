// store/redis/redis_node.h - one Redis server and the connections to it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "store/redis/redis_connection.h"

namespace emblem {

// Thread-safe. After a failure it refuses at once, for a pause that grows with every failure in a
// row, instead of letting every caller wait for a server that is not there, or that hangs. After
// the pause one caller asks whether it answers (PING), within the time for connecting; the others
// are refused until it does.
class RedisNode {
 public:
  // All are borrowed; `tls` may be null.
  RedisNode(RedisEndpoint endpoint, const RedisSettings& settings, const ClientTlsContext* tls,
            HostResolver& resolver)
      : endpoint_(std::move(endpoint)), settings_(settings), tls_(tls), resolver_(resolver) {}

  // A connection for one caller. It goes back when it was given back, and is closed otherwise: with
  // replies unread it would be of no use.
  class Lease {
   public:
    Lease(RedisNode& node, std::unique_ptr<RedisConnection> connection, bool used_before)
        : node_(&node), connection_(std::move(connection)), used_before_(used_before) {}
    Lease(Lease&&) = default;
    ~Lease() {
      if (connection_ != nullptr) node_->close(std::move(connection_));
    }
    RedisConnection& operator*() const { return *connection_; }
    RedisConnection* operator->() const { return connection_.get(); }
    bool used_before() const { return used_before_; }
    void give_back() { node_->take_back(std::move(connection_)); }

   private:
    RedisNode* node_;
    std::unique_ptr<RedisConnection> connection_;
    bool used_before_;
  };

  const RedisEndpoint& endpoint() const { return endpoint_; }
  // Throws kUnavailable.
  Lease lease(Deadline deadline);
  void note_failure();
  bool pausing() const;
  void close_idle();  // connections that the server may have closed as well

 private:
  void probe(Deadline deadline);
  Lease connect(Deadline deadline);
  [[noreturn]] void refuse() const;
  void close(std::unique_ptr<RedisConnection> connection);
  void take_back(std::unique_ptr<RedisConnection> connection);

  const RedisEndpoint endpoint_;
  const RedisSettings& settings_;
  const ClientTlsContext* tls_;
  HostResolver& resolver_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<RedisConnection>> idle_;
  int open_ = 0;
  std::chrono::milliseconds pause_{0};  // 0: the last call went well
  Deadline silent_until_{};
  bool is_probed_ = false;  // a caller is asking whether it answers
};

}  // namespace emblem
