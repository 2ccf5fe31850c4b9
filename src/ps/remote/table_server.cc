#include "ps/remote/table_server.h"

#include <algorithm>
#include <charconv>

#include "core/system/tcp_connect.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr size_t kMostIdle = 64;  // connections

TableServerAddress parse_address(std::string_view text) {
  TableServerAddress address;
  const size_t colon = text.rfind(':');
  const bool has_port = colon != std::string_view::npos && !text.ends_with(']');
  std::string_view host = has_port ? text.substr(0, colon) : text;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  address.host = std::string(host);
  if (has_port) {
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    EMBLEM_REQUIRE(error == std::errc() && end == port.data() + port.size() && address.port > 0 &&
                       address.port < 65536,
                   "table server '", text, "': '", port,
                   "' is not a valid port; HOST:PORT is expected");
  }
  EMBLEM_REQUIRE(!address.host.empty(), "table server '", text, "' has no host");
  EMBLEM_REQUIRE(address.host.find('/') == std::string::npos, "table server '", text,
                 "': HOST:PORT is expected, without http:// and path");
  return address;
}

}  // namespace

std::string TableServerAddress::text() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? cat("[", host, "]:", port) : cat(host, ":", port);
}

std::vector<TableServerAddress> parse_table_servers(std::string_view text) {
  std::vector<TableServerAddress> servers;
  std::string commas(text);
  std::replace(commas.begin(), commas.end(), ';', ',');
  for (const std::string& item : split(commas, ',')) {
    if (trim(item).empty()) continue;
    servers.push_back(parse_address(trim(item)));
    EMBLEM_REQUIRE(std::count(servers.begin(), servers.end(), servers.back()) == 1,
                   "table servers: duplicate ", servers.back().text());
  }
  EMBLEM_REQUIRE(!servers.empty(), "table servers: no address is given; HOST:PORT is expected");
  return servers;
}

TableServer::TableServer(TableServerAddress address, std::string token,
                         std::chrono::milliseconds connect_timeout, HostResolver& resolver,
                         const ClientTlsContext* tls)
    : address_(std::move(address)),
      name_(address_.text()),
      token_(std::move(token)),
      connect_timeout_(connect_timeout),
      resolver_(resolver),
      tls_(tls) {}

TableServer::State TableServer::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

bool TableServer::set_state(State state) {
  std::lock_guard lock(mutex_);
  answered_ = std::chrono::steady_clock::now();
  if (state == state_) return false;
  state_ = std::move(state);
  return true;
}

bool TableServer::has_answered_since(Deadline time) const {
  std::lock_guard lock(mutex_);
  return answered_ > time;
}

bool TableServer::set_down(const std::string& problem) {
  std::vector<ServerConnection> closed;
  std::lock_guard lock(mutex_);
  closed.swap(idle_);
  const bool was_up = std::exchange(state_.is_up, false);
  state_.problem = problem;
  return was_up;
}

int TableServer::note_failed_rows(const RowRequest& request) {
  RowRequest probe{.model = request.model};
  if (!request.tables.empty()) {
    const RowRequest::Table& table = request.tables.front();
    probe.tables.push_back({table.name, table.dim, {table.keys.front()}});
  }
  std::lock_guard lock(mutex_);
  probe_ = std::move(probe);
  return ++failed_in_a_row_;
}

void TableServer::note_answered_rows() {
  std::lock_guard lock(mutex_);
  probe_.reset();
  failed_in_a_row_ = 0;
}

std::optional<RowRequest> TableServer::rows_to_probe() const {
  std::lock_guard lock(mutex_);
  return state_.is_up ? std::nullopt : probe_;
}

ServerConnection TableServer::connect(Deadline deadline) {
  deadline = std::min(deadline, std::chrono::steady_clock::now() + connect_timeout_);
  try {
    return {connect_to(address_.host, address_.port, resolver_, deadline), tls_, address_.host};
  } catch (const Error& error) {
    throw Error(ErrorCode::kUnavailable, cat("cannot connect: ", error.what()));
  }
}

std::unique_ptr<HttpExchange> TableServer::start(std::string_view path, std::string_view body,
                                                 size_t most_bytes, Deadline deadline) {
  ServerConnection connection;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!connection.is_open()) connection = connect(deadline);
  return std::make_unique<HttpExchange>(
      std::move(connection),
      std::make_shared<const std::string>(http_post(name_, path, token_, body)), most_bytes);
}

bool TableServer::restart_if_stale(HttpExchange& exchange, Deadline deadline) {
  if (exchange.has_answer() || exchange.has_timed_out() || !exchange.is_silent()) return false;
  exchange.restart(connect(deadline));
  return true;
}

void TableServer::take_back(HttpExchange& exchange) {
  ServerConnection connection = exchange.take_connection();
  if (!connection.is_open()) return;
  std::lock_guard lock(mutex_);
  if (idle_.size() < kMostIdle) idle_.push_back(std::move(connection));
}

void TableServer::count_request(std::chrono::nanoseconds took, bool has_failed) {
  requests_.fetch_add(1, std::memory_order_relaxed);
  if (has_failed) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  nanoseconds_.fetch_add(static_cast<uint64_t>(took.count()), std::memory_order_relaxed);
  const auto& bounds = TableServerCounts::kBounds;
  const double seconds = std::chrono::duration<double>(took).count();
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
  buckets_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
}

TableServerCounts TableServer::counts() const {
  TableServerCounts counts{.requests = requests_.load(std::memory_order_relaxed),
                           .failures = failures_.load(std::memory_order_relaxed),
                           .retries = retries_.load(std::memory_order_relaxed),
                           .nanoseconds = nanoseconds_.load(std::memory_order_relaxed)};
  for (size_t i = 0; i < buckets_.size(); ++i)
    counts.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
  return counts;
}

}  // namespace emblem
