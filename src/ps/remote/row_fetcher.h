// ps/remote/row_fetcher.h - one fetch of rows from table servers: which server is asked for
// which keys, and which one next when that fails.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ps/remote/table_servers.h"

namespace emblem {

// The state of one fetch; see TableServers::fetch.
class RowFetcher {
 public:
  RowFetcher(TableServers& servers, const ModelId& model, std::span<const RowFetch> fetches);

  void run();

 private:
  struct Place {
    uint32_t fetch, key;  // at in fetches_ and its keys
  };
  // A request to one server.
  struct Ask {
    size_t server = 0;
    std::vector<Place> places;
    RowRequest request{};
    std::unique_ptr<HttpExchange> exchange{};
    std::string problem{};    // why there is no answer
    bool is_refused = false;  // asking the same server again would not help
    bool is_at_fault = true;  // else the request was
    std::chrono::steady_clock::time_point begin{};
  };

  void divide();
  size_t choose(const PartRoute& route, uint16_t segment) const;
  void write_request(Ask& ask) const;
  void start(Ask& ask, Deadline deadline);
  void refused(Ask& ask, const std::string& problem);
  void run_all(Deadline deadline);
  void finish(Ask& ask);
  void note_failure(const Ask& ask);
  void take_answer(const Ask& ask) const;
  [[noreturn]] void give_up() const;

  TableServers& servers_;
  const ModelId& model_;
  const std::span<const RowFetch> fetches_;
  const Deadline deadline_;
  const uint64_t turn_;  // which of several replicas is asked first
  std::vector<Place> pending_;
  std::vector<Ask> asks_;
  std::vector<int> failures_;  // failures of each server in this fetch
  int round_ = 0;
  bool has_replicas_ = false;
  std::string last_problem_;
};

}  // namespace emblem
