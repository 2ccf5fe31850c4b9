// ps/remote/table_server.h - one table server as a front end sees it: connections, what it holds,
// whether it answers, counts.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/tcp_connect.h"
#include "ps/remote/http_exchange.h"
#include "ps/remote/row_message.h"

namespace emblem {

struct TableServerAddress {
  std::string host;
  int port = 8000;

  std::string text() const;  // "host:port"
  bool operator==(const TableServerAddress&) const = default;
};
// "host:port,host:port" (',' or ';', [::1]:8000 for IPv6). Throws kInvalidArgument.
std::vector<TableServerAddress> parse_table_servers(std::string_view text);

struct TableServerCounts {
  // Upper bounds in seconds; one more bucket for what takes longer.
  static constexpr std::array<double, 10> kBounds = {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3,
                                                     5e-3, 1e-2,   5e-2, 0.25, 1.0};
  uint64_t requests = 0;  // for rows
  uint64_t failures = 0;  // requests that failed
  uint64_t retries = 0;   // requests here for rows that another server, or this one, failed to give
  uint64_t nanoseconds = 0;                               // time of successful requests
  std::array<uint64_t, kBounds.size() + 1> buckets = {};  // histogram of their durations
};

// Thread-safe.
class TableServer {
 public:
  struct State {
    bool is_up = false;
    std::string problem = "it was not asked yet";  // why not
    PartRange parts = {0, 0};
    DType row_type = DType::kF32;
    std::vector<ModelId> models;
    bool operator==(const State&) const = default;
  };

  // `resolver` and `tls`, null without TLS, must outlive it.
  TableServer(TableServerAddress address, std::string token,
              std::chrono::milliseconds connect_timeout, HostResolver& resolver,
              const ClientTlsContext* tls = nullptr);

  const std::string& name() const { return name_; }
  State state() const;
  // What its status said just now. Whether that changed anything.
  bool set_state(State state);
  // Whether set_state() was called after that time.
  bool has_answered_since(Deadline time) const;
  // Down until set_state() says otherwise. Whether it was up.
  bool set_down(const std::string& problem);

  // A request for rows failed, that was asked as in `request`: how many did in a row. One that was
  // answered ends that.
  int note_failed_rows(const RowRequest& request);
  void note_answered_rows();
  // A small request for rows such as failed last: a server that does not answer it is not up,
  // whatever its status says. Nothing while rows are answered.
  std::optional<RowRequest> rows_to_probe() const;

  // A request over a free connection or a new one. Throws kUnavailable when there is none by the
  // deadline.
  std::unique_ptr<HttpExchange> start(std::string_view path, std::string_view body,
                                      size_t most_bytes, Deadline deadline);
  // Puts exchanges that failed because the server had closed their connection over a new one;
  // whether there is anything to run.
  bool restart_if_stale(HttpExchange& exchange, Deadline deadline);
  // Keeps the connection after an answer.
  void take_back(HttpExchange& exchange);

  void count_request(std::chrono::nanoseconds took, bool has_failed);
  void count_retry() { retries_.fetch_add(1, std::memory_order_relaxed); }
  TableServerCounts counts() const;

 private:
  ServerConnection connect(Deadline deadline);

  const TableServerAddress address_;
  const std::string name_, token_;
  const std::chrono::milliseconds connect_timeout_;
  HostResolver& resolver_;
  const ClientTlsContext* const tls_;
  mutable std::mutex mutex_;
  State state_;
  Deadline answered_ = Deadline::min();  // when its status arrived last
  std::vector<ServerConnection> idle_;
  std::optional<RowRequest> probe_;
  int failed_in_a_row_ = 0;
  std::atomic<uint64_t> requests_{0}, failures_{0}, retries_{0}, nanoseconds_{0};
  std::array<std::atomic<uint64_t>, TableServerCounts::kBounds.size() + 1> buckets_{};
};

}  // namespace emblem
