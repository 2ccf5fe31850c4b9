// store/redis/redis_store.h - tables in a Redis server or a Redis Cluster, under the names HPS
// gives them: the hashes hps_et{TABLE/pN}v, N = 0 .. partitions - 1.
//
// When Redis is down, calls fail at once with kUnavailable and work again by themselves when it is
// back: no call waits longer than its timeout, and a server that refused is not asked again before
// a short, growing pause.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/system/tcp_connect.h"
#include "store/kv_store.h"
#include "store/overflow.h"
#include "store/partitioned_table.h"

namespace emblem {

#ifdef EMBLEM_WITH_REDIS
inline constexpr bool kHasRedis = true;
#else
inline constexpr bool kHasRedis = false;
#endif

struct RedisEndpoint {
  std::string host;
  int port = 6379;

  std::string text() const { return cat(host, ":", port); }
  bool operator==(const RedisEndpoint&) const = default;
};

struct RedisTls {
  bool enabled = false;
  std::string ca_certificate;      // a file or folder; empty: those of the system
  std::string client_certificate;  // empty: none is shown
  std::string client_key;
  std::string server_name;  // that the certificate must bear; empty: the host
};

struct RedisSettings {
  // A server, or some nodes of a cluster; the others are found by asking.
  std::vector<RedisEndpoint> endpoints;
  std::string user = "default";
  std::string password;  // empty: no AUTH is sent
  RedisTls tls;
  int64_t partitions = 8;         // hashes that a table is spread over; part of where rows are
  int connections_per_node = 5;   // at most
  int64_t max_batch = 65536;      // keys a command
  size_t key_bytes = 8;           // or 4
  Overflow overflow;              // overflow of each partition
  bool row_checksums = true;      // written with rows; false: as HPS writes and reads them
  int check_interval_ms = 100;    // at least, of a partition's number of rows, when misses rise
  int connect_timeout_ms = 500;   // with the lookup of its name, TLS and login
  int request_timeout_ms = 2000;  // with all of the above where a connection is needed
  ResolveHost resolve = resolve_host;
  std::function<int64_t()> unix_seconds = [] { return int64_t{std::time(nullptr)}; };
};

// "host:port,host:port" (',' or ';'); the default port is 6379. Throws kInvalidArgument.
std::vector<RedisEndpoint> parse_redis_endpoints(std::string_view text);

// A lock that the processes which share a store respect. Released by its destructor, and by the
// store when it is not renewed in time: a process that dies holds up no other.
class LeasedLock {
 public:
  virtual ~LeasedLock() = default;
  // Renews it for as long again as it was taken for. False when it was lost: another process
  // may have it.
  virtual bool renew() = 0;
};

// A store that several processes may use.
class SharedKvStore : public KvStore {
 public:
  // As open, which gives the same.
  virtual std::shared_ptr<PartitionedTable> open_parts(const std::string& name, int64_t dim) = 0;
  // Locks for the time of `lease`; null when another process has it.
  virtual std::unique_ptr<LeasedLock> try_lock(const std::string& name,
                                               std::chrono::milliseconds lease) = 0;
};

// Connects on first use. Throws kInvalidArgument in a build without Redis and for settings that
// cannot work.
std::unique_ptr<SharedKvStore> make_redis_store(const RedisSettings& settings);

}  // namespace emblem
