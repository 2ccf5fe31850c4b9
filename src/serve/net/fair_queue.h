// serve/net/fair_queue.h - items of many clients that wait, taken in turns: a client with thousands
// of them delays others by one.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

namespace emblem {

// The client that an item belongs to. Hosts have equal shares, and so have the connections of a
// host: many connections bring a client no more, and clients behind one proxy have shares of their
// own.
struct ClientKey {
  uint64_t host = 0;
  uint64_t connection = 0;
};

// Not thread-safe.
template <class Item>
class FairQueue {
 public:
  explicit FairQueue(size_t most) : most_(most) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Whether a host has its share of the places: as many as are left for others, so that one host
  // alone takes half of them, and another still finds places.
  bool is_full_for(const ClientKey& client) const {
    const auto host = hosts_.find(client.host);
    const size_t own = host == hosts_.end() ? 0 : host->second.size;
    return size_ >= most_ || own >= most_ - size_;
  }

  // When it throws for lack of memory, the queue is as before.
  void push(const ClientKey& client, Item item) {
    Host& host = hosts_[client.host];
    try {
      host.connections[client.connection].push_back(std::move(item));
    } catch (...) {
      drop_if_empty(client);
      throw;
    }
    ++host.size;
    ++size_;
  }

  // The first item of the connection whose turn it is, of the host whose turn it is. Must not be
  // called on an empty queue.
  std::pair<ClientKey, Item> pop() {
    const auto host = after(hosts_, last_host_);
    const auto connection = after(host->second.connections, host->second.last_connection);
    const ClientKey client{host->first, connection->first};
    std::pair<ClientKey, Item> first(client, std::move(connection->second.front()));
    connection->second.pop_front();
    last_host_ = client.host;
    host->second.last_connection = client.connection;
    --host->second.size;
    --size_;
    drop_if_empty(client);
    return first;
  }

 private:
  struct Host {
    std::map<uint64_t, std::deque<Item>> connections;  // none is empty
    uint64_t last_connection = 0;                      // that had its turn
    size_t size = 0;
  };

  // The entry whose turn follows that of `last`.
  template <class Entries>
  static typename Entries::iterator after(Entries& entries, uint64_t last) {
    const auto next = entries.upper_bound(last);
    return next == entries.end() ? entries.begin() : next;
  }

  void drop_if_empty(const ClientKey& client) {
    const auto host = hosts_.find(client.host);
    auto& connections = host->second.connections;
    const auto connection = connections.find(client.connection);
    if (connection != connections.end() && connection->second.empty())
      connections.erase(connection);
    if (connections.empty()) hosts_.erase(host);
  }

  const size_t most_;
  std::map<uint64_t, Host> hosts_;  // none is empty
  uint64_t last_host_ = 0;          // that had its turn
  size_t size_ = 0;
};

}  // namespace emblem
