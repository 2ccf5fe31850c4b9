// store/redis/redis_proxy_test.h - between a client and a Redis server: counts commands, holds
// replies back, loses them.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "store/redis/redis_store.h"

namespace emblem {

class RedisProxy {
 public:
  RedisProxy(RedisEndpoint server, int port) : server_(std::move(server)), port_(port) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    const sockaddr_in address = address_of(port_);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 64), 0);
    thread_ = std::thread([this] {
      while (!stop_) step();
    });
  }
  ~RedisProxy() {
    stop_ = true;
    thread_.join();
    for (Link& link : links_) link.close_both();
    close(listener_);
  }
  RedisProxy(const RedisProxy&) = delete;

  RedisEndpoint endpoint() const { return {"127.0.0.1", port_}; }

  // Commands that have come, all or of one name.
  int64_t commands() const {
    std::lock_guard lock(mutex_);
    return commands_;
  }
  int64_t commands(const std::string& name) const {
    std::lock_guard lock(mutex_);
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? 0 : found->second;
  }

  // No reply is passed on before that many commands from now on have come: a client that waits for
  // one before it sends the next gets none.
  void hold_replies_until(int64_t commands) {
    std::lock_guard lock(mutex_);
    released_at_ = commands_ + commands;
  }
  // From the next command of that name on, no reply is passed on any more.
  void fall_silent_at(std::string name) {
    std::lock_guard lock(mutex_);
    silent_at_ = std::move(name);
  }
  void speak_again() {
    std::lock_guard lock(mutex_);
    silent_at_.clear();
    released_at_ = 0;
  }
  // The next command of one of these names is executed; its reply is lost and the connection
  // closed.
  void lose_reply_to(std::set<std::string> names) {
    std::lock_guard lock(mutex_);
    lost_ = std::move(names);
  }
  bool has_lost_reply() const {
    std::lock_guard lock(mutex_);
    return lost_.empty();
  }

 private:
  static constexpr std::string_view kMark = "the-end-of-this-connection";

  struct Link {
    int client = -1, server = -1;
    std::string unparsed;  // bytes of the client
    std::string replies;   // to be passed on
    bool losing = false;   // until kMark comes back

    void close_both() {
      if (client >= 0) close(client);
      if (server >= 0) close(server);
      client = server = -1;
    }
  };

  static sockaddr_in address_of(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void step() {
    std::vector<pollfd> fds = {{listener_, POLLIN, 0}};
    for (const Link& link : links_) {
      fds.push_back({link.client, POLLIN, 0});
      fds.push_back({link.server, POLLIN, 0});
    }
    poll(fds.data(), fds.size(), 5);
    size_t at = 1;
    for (Link& link : links_) {
      const bool from_client = fds[at++].revents != 0, from_server = fds[at++].revents != 0;
      if (from_client) take_commands(link);
      if (from_server && link.server >= 0) take_replies(link);
    }
    std::lock_guard lock(mutex_);
    for (Link& link : links_) {
      if (commands_ >= released_at_ && link.client >= 0) pass_on(link.client, link.replies);
    }
    links_.remove_if([](const Link& link) { return link.client < 0; });
    if (fds[0].revents != 0) accept_one();
  }

  void accept_one() {
    Link& link = links_.emplace_back();
    link.client = accept(listener_, nullptr, nullptr);
    link.server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = address_of(server_.port);
    if (connect(link.server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      link.close_both();
  }

  void take_commands(Link& link) {
    const std::string bytes = receive(link.client);
    if (bytes.empty()) return link.close_both();
    link.unparsed += bytes;
    std::string sent = bytes;
    std::lock_guard lock(mutex_);
    for (std::string name; take_command(link.unparsed, name);) {
      ++commands_;
      ++by_name_[name];
      if (name == silent_at_) released_at_ = INT64_MAX;
      if (!lost_.contains(name)) continue;
      lost_.clear();
      link.losing = true;
    }
    if (link.losing)
      sent += "*2\r\n$4\r\nECHO\r\n$" + std::to_string(kMark.size()) + "\r\n" + std::string(kMark) +
              "\r\n";
    pass_on(link.server, sent);
  }

  void take_replies(Link& link) {
    const std::string bytes = receive(link.server);
    if (bytes.empty()) return link.close_both();
    link.replies += bytes;
    if (!link.losing) return;
    if (link.replies.find(kMark) != std::string::npos) link.close_both();
  }

  static std::string receive(int fd) {
    std::string bytes(1 << 16, '\0');
    const ssize_t came = recv(fd, bytes.data(), bytes.size(), 0);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(0, came)));
    return bytes;
  }
  static void pass_on(int fd, std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t more = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) break;
      sent += static_cast<size_t>(more);
    }
    bytes.clear();
  }

  // Takes a whole command off the front.
  static bool take_command(std::string& bytes, std::string& name) {
    size_t at = 0;
    const auto number = [&](char kind, size_t& value) {
      const size_t end = bytes.find("\r\n", at);
      if (end == std::string::npos || bytes[at] != kind) return false;
      value = std::stoul(bytes.substr(at + 1, end - at - 1));
      at = end + 2;
      return true;
    };
    size_t words = 0;
    if (!number('*', words)) return false;
    for (size_t i = 0; i < words; ++i) {
      size_t size = 0;
      if (!number('$', size) || bytes.size() < at + size + 2) return false;
      if (i == 0) name = bytes.substr(at, size);
      at += size + 2;
    }
    bytes.erase(0, at);
    return true;
  }

  const RedisEndpoint server_;
  const int port_;
  int listener_ = -1;
  std::list<Link> links_;  // used by thread_ alone
  mutable std::mutex mutex_;
  int64_t commands_ = 0, released_at_ = 0;
  std::map<std::string, int64_t> by_name_;
  std::string silent_at_;
  std::set<std::string> lost_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace emblem
