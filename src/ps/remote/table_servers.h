// ps/remote/table_servers.h - the servers that hold the rows of a front end's models by parts.
//
// Each server is asked for its status several times a second: which parts it holds, of which
// versions of which models. Servers with the same parts are replicas. A server that cannot be
// reached, that does not answer in time, or that fails several requests for rows in a row, is not
// used until its status arrives again and it gives a row.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/math/hash.h"
#include "embedding/settings.h"
#include "ps/remote/table_server.h"

namespace emblem {

struct TableServersOptions {
  std::vector<TableServerAddress> servers;
  std::string token;  // bearer token of the servers; empty: none is sent
  // Time for a lookup, with all retries. A server whose status is late for as long is down.
  std::chrono::milliseconds timeout{1000};
  std::chrono::milliseconds status_interval{250};  // between two questions for the status
  ResolveHost resolve = resolve_host;
  std::optional<ClientTls> tls;  // connections are encrypted and servers checked; else neither
};

// Rows to fetch from one table.
struct RowFetch {
  std::string_view table;
  int64_t dim = 0;
  TableKind kind = TableKind::kStatic;
  // As KvTable::fetch takes them.
  std::span<const int64_t> keys;
  std::span<float> rows;
  std::span<uint8_t> found;
};

// Which servers have which parts of a version.
struct PartRoute {
  std::array<uint16_t, kParts> segment_of = {};  // segment of each part, an index into holders
  std::vector<std::vector<uint16_t>> holders;    // servers, rising; those that are up
};

// Thread-safe.
class TableServers {
 public:
  // Returns when each server was asked once.
  explicit TableServers(TableServersOptions options);
  ~TableServers();
  TableServers(const TableServers&) = delete;

  // Parts of the version that no server has that is up.
  std::vector<PartRange> missing(const ModelId& model) const;
  // Asks all servers for their status and waits for the answers.
  void refresh();
  // What is missing, in words, with the reasons of the servers that are down; empty: nothing
  // is missing.
  std::string problem(const ModelId& model) const;

  // Servers are told that the version is needed for as long as the result lives.
  std::shared_ptr<const void> use(const ModelId& model);

  // One request to each server that has some of the keys, at the same time; those that fail are
  // repeated with a replica, or once with the same server. Throws kUnavailable when rows cannot be
  // had within the timeout. Keys should be different.
  void fetch(const ModelId& model, std::span<const RowFetch> fetches);

  size_t size() const { return servers_.size(); }
  TableServer& server(size_t at) const { return *servers_[at]; }
  const TableServersOptions& options() const { return options_; }
  std::shared_ptr<const PartRoute> route(const ModelId& model) const;
  // Not to be asked until its status arrives again.
  void set_down(size_t server, const std::string& problem);
  uint64_t next_number() { return next_number_.fetch_add(1, std::memory_order_relaxed); }
  // A random number for each lookup, so that replicas share them whatever the order of lookups.
  uint64_t next_turn() { return mix64(turns_.fetch_add(1, std::memory_order_relaxed)); }

  // Metrics in Prometheus' text form.
  std::string metrics() const;

 private:
  void wait_until_asked(uint64_t times);
  void watch(size_t server) noexcept;
  void ask(size_t server, Deadline deadline);
  void probe_rows(TableServer& server, Deadline deadline);
  std::string status_request() const;
  void warn_of_row_types(size_t server) const;  // where another server has another

  const TableServersOptions options_;
  HostResolver resolver_;
  std::optional<ClientTlsContext> tls_;
  std::vector<std::unique_ptr<TableServer>> servers_;
  std::atomic<uint64_t> next_number_, turns_{0}, failed_lookups_{0};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<ModelId, int> in_use_;
  std::vector<uint64_t> asked_;  // how often each server was
  std::vector<uint64_t> due_;    // how often it is to be asked without a pause
  bool stop_ = false;
  // Routes of the present states.
  mutable std::map<ModelId, std::shared_ptr<const PartRoute>> routes_;
  uint64_t states_ = 0;  // counts changes of them
  std::vector<std::thread> watchers_;
};

}  // namespace emblem
