#include "ps/remote/row_fetcher.h"

#include <algorithm>
#include <cstring>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostFailures = 2;  // failures of a server in one fetch
// Failures in a row of a server that is used, in all fetches.
constexpr int kMostInARow = 3;
constexpr size_t kErrorBytes = 64 << 10;  // bytes of an answer that is an error
constexpr size_t kShownBytes = 300;       // bytes of its text that are shown

int32_t part_of(const RowFetch& fetch, int64_t key) {
  return fetch.kind == TableKind::kStatic ? part_of_static_key(key) : part_of_hashed_key(key);
}

}  // namespace

RowFetcher::RowFetcher(TableServers& servers, const ModelId& model,
                       std::span<const RowFetch> fetches)
    : servers_(servers),
      model_(model),
      fetches_(fetches),
      deadline_(Clock::now() + servers.options().timeout),
      turn_(servers.next_turn()),
      failures_(servers.size()) {
  for (uint32_t f = 0; f < fetches.size(); ++f) {
    for (uint32_t key = 0; key < fetches[f].keys.size(); ++key) pending_.push_back({f, key});
  }
}

void RowFetcher::run() {
  for (; !pending_.empty(); ++round_) {
    const auto now = Clock::now();
    if (round_ > 0 && now >= deadline_) give_up();
    divide();
    // A server that does not answer must leave time for its replica.
    run_all(has_replicas_ ? now + (deadline_ - now) / 2 : deadline_);
    pending_.clear();
    for (Ask& ask : asks_) finish(ask);
  }
}

void RowFetcher::give_up() const {
  const std::string problem = servers_.problem(model_);
  throw Error(ErrorCode::kUnavailable, cat("rows of ", model_.text(), " cannot be read: ",
                                           !last_problem_.empty() ? last_problem_ : problem));
}

// The holder with the fewest failures; of several, by turn_.
size_t RowFetcher::choose(const PartRoute& route, uint16_t segment) const {
  const std::vector<uint16_t>& holders = route.holders[segment];
  const uint16_t* best = nullptr;
  for (size_t i = 0; i < holders.size(); ++i) {
    const uint16_t& server = holders[(i + turn_) % holders.size()];
    if (failures_[server] >= kMostFailures) continue;
    if (best == nullptr || failures_[server] < failures_[*best]) best = &server;
  }
  if (best == nullptr) give_up();
  return *best;
}

// Groups the pending keys by the server that will be asked for them.
void RowFetcher::divide() {
  const std::shared_ptr<const PartRoute> route = servers_.route(model_);
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> ask_of_segment(route->holders.size(), kNone);
  std::vector<size_t> ask_of_server(servers_.size(), kNone);
  asks_.clear();
  has_replicas_ = false;
  for (const Place place : pending_) {
    const RowFetch& fetch = fetches_[place.fetch];
    const uint16_t segment =
        route->segment_of[static_cast<size_t>(part_of(fetch, fetch.keys[place.key]))];
    size_t& ask = ask_of_segment[segment];
    if (ask == kNone) {
      const size_t server = choose(*route, segment);
      has_replicas_ = has_replicas_ || route->holders[segment].size() > 1;
      if (ask_of_server[server] == kNone) {
        ask_of_server[server] = asks_.size();
        asks_.push_back({.server = server, .places = {}});
      }
      ask = ask_of_server[server];
    }
    asks_[ask].places.push_back(place);
  }
}

// Places are in the order of tables.
void RowFetcher::write_request(Ask& ask) const {
  ask.request.number = servers_.next_number();
  ask.request.model = model_;
  uint32_t last = UINT32_MAX;
  for (const Place place : ask.places) {
    const RowFetch& fetch = fetches_[place.fetch];
    if (place.fetch != last) {
      ask.request.tables.push_back({std::string(fetch.table), fetch.dim, {}});
      last = place.fetch;
    }
    ask.request.tables.back().keys.push_back(fetch.keys[place.key]);
  }
}

void RowFetcher::start(Ask& ask, Deadline deadline) {
  TableServer& server = servers_.server(ask.server);
  write_request(ask);
  if (round_ > 0) server.count_retry();
  ask.begin = Clock::now();
  const size_t most = std::max(kErrorBytes, answer_bytes(ask.request));
  try {
    ask.exchange = server.start(kRowsPath, encode(ask.request), most, deadline);
  } catch (const Error& error) {
    refused(ask, error.what());
  }
}

void RowFetcher::refused(Ask& ask, const std::string& problem) {
  ask.problem = problem;
  ask.is_refused = true;
  // A status that arrived since the request began counts more than its refusal.
  if (!servers_.server(ask.server).has_answered_since(ask.begin))
    servers_.set_down(ask.server, problem);
}

void RowFetcher::run_all(Deadline deadline) {
  std::vector<HttpExchange*> exchanges;
  for (Ask& ask : asks_) {
    start(ask, deadline);
    if (ask.exchange != nullptr) exchanges.push_back(ask.exchange.get());
  }
  run_exchanges(exchanges, deadline);
  // Over a connection that was idle for long, the server may have gone unnoticed.
  exchanges.clear();
  for (Ask& ask : asks_) {
    if (ask.exchange == nullptr) continue;
    try {
      if (servers_.server(ask.server).restart_if_stale(*ask.exchange, deadline))
        exchanges.push_back(ask.exchange.get());
    } catch (const Error& error) {
      refused(ask, error.what());
    }
  }
  run_exchanges(exchanges, deadline);
}

// Takes the answer, or leaves the keys for the next round.
void RowFetcher::finish(Ask& ask) {
  TableServer& server = servers_.server(ask.server);
  if (ask.exchange != nullptr && ask.problem.empty()) {
    const HttpExchange& exchange = *ask.exchange;
    if (!exchange.has_answer()) {
      ask.problem = exchange.problem();
      ask.is_refused = exchange.has_timed_out();
      if (exchange.has_timed_out()) servers_.set_down(ask.server, ask.problem);
    } else if (exchange.status() != 200) {
      ask.problem = cat("status ", exchange.status(), ": ",
                        printable(exchange.body().substr(0, kShownBytes)));
      ask.is_refused = true;
      ask.is_at_fault = exchange.status() >= 500;
    } else {
      try {
        take_answer(ask);
      } catch (const Error& error) {
        ask.problem = error.what();
        ask.is_refused = true;
      }
    }
    if (exchange.has_answer()) server.take_back(*ask.exchange);
  }
  server.count_request(Clock::now() - ask.begin, !ask.problem.empty());
  if (ask.problem.empty()) return server.note_answered_rows();
  if (ask.is_at_fault) note_failure(ask);
  failures_[ask.server] += ask.is_refused ? kMostFailures : 1;
  last_problem_ = cat("table server ", server.name(), ": ", ask.problem);
  pending_.insert(pending_.end(), ask.places.begin(), ask.places.end());
  std::stable_sort(pending_.begin(), pending_.end(),
                   [](Place a, Place b) { return a.fetch < b.fetch; });
}

// A server that answers its status and gives no rows is of no use.
void RowFetcher::note_failure(const Ask& ask) {
  if (servers_.server(ask.server).note_failed_rows(ask.request) >= kMostInARow)
    servers_.set_down(ask.server, ask.problem);
}

void RowFetcher::take_answer(const Ask& ask) const {
  size_t next = 0;  // in ask.places
  read_answer(ask.request, ask.exchange->body(),
              [&](size_t table, const char* rows, const uint8_t* found) {
                const size_t keys = ask.request.tables[table].keys.size();
                for (size_t i = 0; i < keys; ++i) {
                  const Place place = ask.places[next++];
                  const RowFetch& fetch = fetches_[place.fetch];
                  const size_t dim = static_cast<size_t>(fetch.dim);
                  fetch.found[place.key] = found[i];
                  if (found[i] != 0)
                    std::memcpy(fetch.rows.data() + place.key * dim, rows + i * dim * sizeof(float),
                                dim * sizeof(float));
                }
              });
}

}  // namespace emblem
