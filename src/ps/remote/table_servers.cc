#include "ps/remote/table_servers.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/math/random.h"
#include "core/system/caught_error.h"
#include "core/system/log.h"
#include "core/text/text.h"
#include "core/threads/start_thread.h"
#include "emblem/error.h"
#include "ps/remote/row_fetcher.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kStatusTimeout{1000};
constexpr std::chrono::milliseconds kConnectTimeout{500};
constexpr size_t kMostStatusBytes = 1 << 20;

constexpr const char* kDescriptions =
    "# HELP emblem_table_server_up Whether the table server answers\n"
    "# TYPE emblem_table_server_up gauge\n"
    "# HELP emblem_table_server_requests_total Requests for rows to the table server\n"
    "# TYPE emblem_table_server_requests_total counter\n"
    "# HELP emblem_table_server_failures_total Requests for rows that the table server failed\n"
    "# TYPE emblem_table_server_failures_total counter\n"
    "# HELP emblem_table_server_retries_total Requests for rows that a request before failed to "
    "get\n"
    "# TYPE emblem_table_server_retries_total counter\n"
    "# HELP emblem_table_server_duration_seconds Duration of successful requests for rows\n"
    "# TYPE emblem_table_server_duration_seconds histogram\n"
    "# HELP emblem_table_lookups_failed_total Lookups that failed after all retries\n"
    "# TYPE emblem_table_lookups_failed_total counter\n"
    "# HELP emblem_table_parts_missing Parts of the version that no table server has that "
    "answers\n"
    "# TYPE emblem_table_parts_missing gauge\n";

}  // namespace

TableServers::TableServers(TableServersOptions options)
    : options_(std::move(options)),
      resolver_(options_.resolve),
      // Answers to a front end that ran before are those to another request.
      next_number_(static_cast<uint64_t>(Clock::now().time_since_epoch().count())) {
  EMBLEM_REQUIRE(!options_.servers.empty(), "table servers: no address is given");
  EMBLEM_REQUIRE(options_.servers.size() < 1000, "table servers: ", options_.servers.size(),
                 " addresses; at most 999 are possible");
  // One that does not answer must leave time for its replica.
  if (options_.tls) tls_.emplace(*options_.tls);
  const auto connect_timeout = std::max(kConnectTimeout, options_.timeout / 2);
  for (const TableServerAddress& address : options_.servers) {
    servers_.push_back(std::make_unique<TableServer>(address, options_.token, connect_timeout,
                                                     resolver_, tls_ ? &*tls_ : nullptr));
  }
  asked_.resize(servers_.size());
  due_.resize(servers_.size());
  for (size_t i = 0; i < servers_.size(); ++i)
    watchers_.push_back(start_thread("watching a table server", [this, i] { watch(i); }));
  wait_until_asked(1);
}

TableServers::~TableServers() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& watcher : watchers_) watcher.join();
}

// ---- the state of servers ----

// The first may be under way.
void TableServers::refresh() { wait_until_asked(2); }

void TableServers::wait_until_asked(uint64_t times) {
  std::unique_lock lock(mutex_);
  std::vector<uint64_t> wanted = asked_;
  for (size_t i = 0; i < wanted.size(); ++i) due_[i] = std::max(due_[i], wanted[i] += times);
  changed_.notify_all();
  changed_.wait(lock, [&] {
    for (size_t i = 0; i < wanted.size(); ++i)
      if (asked_[i] < wanted[i]) return stop_;
    return true;
  });
}

void TableServers::watch(size_t server) noexcept {
  for (;;) {
    const Deadline deadline = Clock::now() + kStatusTimeout;
    try {
      ask(server, deadline);
    } catch (...) {
      const Error error = caught_error();
      // One that is late may be busy.
      const auto now = Clock::now();
      if (now < deadline || !servers_[server]->has_answered_since(now - options_.timeout))
        set_down(server, error.what());
    }
    std::unique_lock lock(mutex_);
    ++asked_[server];
    changed_.notify_all();
    changed_.wait_for(lock, options_.status_interval,
                      [&] { return stop_ || asked_[server] < due_[server]; });
    if (stop_) return;
  }
}

std::string TableServers::status_request() const {
  StatusRequest request;
  std::lock_guard lock(mutex_);
  for (const auto& [model, uses] : in_use_) request.in_use.push_back(model);
  return encode(request);
}

// Throws kUnavailable. One that refuses the request has answered: the version may be gone.
void TableServers::probe_rows(TableServer& server, Deadline deadline) {
  std::optional<RowRequest> request = server.rows_to_probe();
  if (!request) return;
  request->number = next_number();
  std::string problem;
  const auto exchange = server.start(kRowsPath, encode(*request), kMostStatusBytes, deadline);
  HttpExchange* const all[] = {exchange.get()};
  run_exchanges(all, deadline);
  if (!exchange->has_answer()) {
    problem = exchange->problem();
  } else if (exchange->status() >= 500) {
    problem = cat("status ", exchange->status(), ": ", printable(exchange->body().substr(0, 300)));
  } else if (exchange->status() == 200) {
    try {
      read_answer(*request, exchange->body(), [](size_t, const char*, const uint8_t*) {});
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  if (!problem.empty())
    throw Error(ErrorCode::kUnavailable, "it answers its status, but not rows: " + problem);
  server.take_back(*exchange);
  server.note_answered_rows();
}

void TableServers::ask(size_t at, Deadline deadline) {
  TableServer& server = *servers_[at];
  const auto exchange = server.start(kStatusPath, status_request(), kMostStatusBytes, deadline);
  HttpExchange* const all[] = {exchange.get()};
  run_exchanges(all, deadline);
  if (server.restart_if_stale(*exchange, deadline)) run_exchanges(all, deadline);
  if (!exchange->has_answer()) throw Error(ErrorCode::kUnavailable, exchange->problem());
  if (exchange->status() != 200) {
    throw Error(ErrorCode::kUnavailable, cat("status ", exchange->status(), ": ",
                                             printable(exchange->body().substr(0, 300))));
  }
  StatusAnswer answer = decode_status_answer(exchange->body());
  server.take_back(*exchange);
  probe_rows(server, deadline);
  const bool was_up = server.state().is_up;
  std::sort(answer.models.begin(), answer.models.end());
  const TableServer::State state{true, "", answer.parts, answer.row_type, std::move(answer.models)};
  if (!server.set_state(state)) return;
  if (!was_up) {
    log_info(cat("table server ", server.name(), " has parts ", to_string(state.parts)));
    warn_of_row_types(at);
  }
  std::lock_guard lock(mutex_);
  ++states_;
  routes_.clear();
}

void TableServers::warn_of_row_types(size_t at) const {
  const TableServer::State state = servers_[at]->state();
  for (size_t i = 0; i < servers_.size(); ++i) {
    const TableServer::State other = servers_[i]->state();
    if (i == at || !other.is_up || other.row_type == state.row_type) continue;
    log_warn(cat("table server ", servers_[at]->name(), " has rows in ", name_of(state.row_type),
                 ", ", servers_[i]->name(), " in ", name_of(other.row_type),
                 ": answers depend on which server has a row; give all the same --row-precision"));
    return;
  }
}

void TableServers::set_down(size_t server, const std::string& problem) {
  const std::string before = servers_[server]->state().problem;
  const bool was_up = servers_[server]->set_down(problem);
  if (was_up || before != problem)
    log_warn(cat("table server ", servers_[server]->name(), " is down: ", problem));
  if (!was_up) return;
  std::lock_guard lock(mutex_);
  ++states_;
  routes_.clear();
}

std::shared_ptr<const PartRoute> TableServers::route(const ModelId& model) const {
  uint64_t states = 0;
  {
    std::lock_guard lock(mutex_);
    const auto found = routes_.find(model);
    if (found != routes_.end()) return found->second;
    states = states_;
  }
  std::vector<PartRange> ranges(servers_.size(), PartRange{0, 0});
  std::vector<int32_t> edges = {0, kParts};
  for (size_t i = 0; i < servers_.size(); ++i) {
    const TableServer::State state = servers_[i]->state();
    const bool has = std::binary_search(state.models.begin(), state.models.end(), model);
    if (!state.is_up || !has) continue;
    ranges[i] = state.parts;
    edges.insert(edges.end(), {state.parts.first, state.parts.last});
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  auto route = std::make_shared<PartRoute>();
  for (size_t e = 0; e + 1 < edges.size(); ++e) {
    const auto segment = static_cast<uint16_t>(route->holders.size());
    std::fill(route->segment_of.begin() + edges[e], route->segment_of.begin() + edges[e + 1],
              segment);
    auto& holders = route->holders.emplace_back();
    for (size_t i = 0; i < ranges.size(); ++i)
      if (ranges[i].contains(edges[e])) holders.push_back(static_cast<uint16_t>(i));
  }
  std::lock_guard lock(mutex_);
  if (states == states_) routes_[model] = route;
  return route;
}

std::vector<PartRange> TableServers::missing(const ModelId& model) const {
  const auto route = this->route(model);
  std::vector<PartRange> held;
  for (int32_t part = 0; part < kParts; ++part) {
    if (!route->holders[route->segment_of[static_cast<size_t>(part)]].empty())
      held.push_back({part, part + 1});
  }
  return missing_parts(std::move(held));
}

std::string TableServers::problem(const ModelId& model) const {
  const std::vector<PartRange> parts = missing(model);
  if (parts.empty()) return "";
  std::string text =
      cat("parts ", to_string(parts), " of ", model.text(), " are on no table server that answers");
  for (const auto& server : servers_) {
    const TableServer::State state = server->state();
    if (!state.is_up) {
      text += cat("; ", server->name(), ": ", state.problem);
    } else if (!std::binary_search(state.models.begin(), state.models.end(), model)) {
      const bool has_other =
          std::any_of(state.models.begin(), state.models.end(), [&](const ModelId& other) {
            return other.model == model.model && other.version == model.version;
          });
      text += cat("; ", server->name(), ", which has parts ", to_string(state.parts),
                  has_other ? ", has other files under this version" : ", has not loaded it");
    }
  }
  return text;
}

std::shared_ptr<const void> TableServers::use(const ModelId& model) {
  {
    std::lock_guard lock(mutex_);
    ++in_use_[model];
  }
  return {this, [model](TableServers* self) {
            std::lock_guard lock(self->mutex_);
            if (--self->in_use_[model] == 0) self->in_use_.erase(model);
          }};
}

// ---- rows ----

void TableServers::fetch(const ModelId& model, std::span<const RowFetch> fetches) {
  try {
    RowFetcher(*this, model, fetches).run();
  } catch (const Error&) {
    failed_lookups_.fetch_add(1, std::memory_order_relaxed);
    throw;
  }
}

std::string TableServers::metrics() const {
  std::string text = kDescriptions;
  for (const auto& server : servers_) {
    const std::string label = fmt::format("server=\"{}\"", server->name());
    const TableServerCounts counts = server->counts();
    const auto add = [&](const char* name, auto value) {
      text += fmt::format("{}{{{}}} {}\n", name, label, value);
    };
    add("emblem_table_server_up", server->state().is_up ? 1 : 0);
    add("emblem_table_server_requests_total", counts.requests);
    add("emblem_table_server_failures_total", counts.failures);
    add("emblem_table_server_retries_total", counts.retries);
    uint64_t sum = 0;
    for (size_t i = 0; i < counts.buckets.size(); ++i) {
      sum += counts.buckets[i];
      const std::string bound = i < TableServerCounts::kBounds.size()
                                    ? fmt::format("{}", TableServerCounts::kBounds[i])
                                    : "+Inf";
      text += fmt::format("emblem_table_server_duration_seconds_bucket{{{},le=\"{}\"}} {}\n", label,
                          bound, sum);
    }
    add("emblem_table_server_duration_seconds_sum", static_cast<double>(counts.nanoseconds) * 1e-9);
    add("emblem_table_server_duration_seconds_count", sum);
  }
  text += fmt::format("emblem_table_lookups_failed_total {}\n",
                      failed_lookups_.load(std::memory_order_relaxed));
  std::vector<ModelId> used;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [model, uses] : in_use_) used.push_back(model);
  }
  for (const ModelId& model : used) {
    int32_t parts = 0;
    for (const PartRange range : missing(model)) parts += range.count();
    text += fmt::format("emblem_table_parts_missing{{model=\"{}\",version=\"{}\"}} {}\n",
                        model.model, model.version, parts);
  }
  return text;
}

}  // namespace emblem
