// store/redis/redis_server_test.h - real Redis servers for tests: started on free ports of this
// machine in folders of their own, and gone with the test.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/files/temp_folder_test.h"
#include "core/threads/becomes_true_test.h"
#include "store/redis/redis_connection.h"
#include "store/redis/redis_proxy_test.h"

namespace emblem {

// Below the range from which the system chooses ports of its own, so that no connection takes it
// before the server does.
inline int free_port() {
  std::random_device random;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const int port = 10'000 + static_cast<int>(random() % 20'000);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    if (free) return port;
  }
  throw std::runtime_error("no free port");
}

// Where EMBLEM_REQUIRE_REDIS is set, tests fail without it.
inline bool redis_is_installed() {
  std::istringstream folders(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/redis-server").c_str(), X_OK) == 0) return true;
  EXPECT_EQ(std::getenv("EMBLEM_REQUIRE_REDIS"), nullptr) << "redis-server is not installed";
  return false;
}

// First in a test that starts a server.
#define EMBLEM_SKIP_WITHOUT_REDIS() \
  if (!redis_is_installed()) GTEST_SKIP() << "redis-server is not installed (make setup)"

class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> options = {}) : options_(std::move(options)) {
    start();
  }
  ~RedisServer() { kill(); }
  RedisServer(const RedisServer&) = delete;

  RedisEndpoint endpoint() const { return {"127.0.0.1", port_}; }
  // Settings with time for any machine.
  RedisSettings settings() const {
    return {.endpoints = {endpoint()},
            .partitions = 4,
            .connect_timeout_ms = 60'000,
            .request_timeout_ms = 60'000};
  }

  // Starts on the same port and folder as before.
  void start() {
    std::vector<std::string> words = {
        "redis-server", "--port",    std::to_string(port_), "--bind", "127.0.0.1", "--dir",
        folder_.path(), "--logfile", folder_.path("log"),   "--save", ""};
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    ASSERT_GT(process_, 0);
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  void signal(int number) { ::kill(process_, number); }

  // Waits until it answers; false when it never does, or has ended.
  bool wait(const RedisSettings& settings, const ClientTlsContext* tls = nullptr) {
    bool answers = false;
    becomes_true([&] {
      int status = 0;
      if (waitpid(process_, &status, WNOHANG) == process_) {
        process_ = -1;
        ADD_FAILURE() << "redis-server ended"
                      << (WEXITSTATUS(status) == 127 ? ": it is not installed (make setup)" : "");
        return true;
      }
      try {
        answers = call(settings, {"PING"}, tls).text == "PONG";  // else it is still loading
      } catch (const Error&) {                                   // not there yet
      }
      return answers;
    });
    return answers;
  }
  bool wait() { return wait(settings()); }

  RedisReply call(const RedisSettings& settings, std::initializer_list<std::string_view> words,
                  const ClientTlsContext* tls = nullptr) {
    const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    HostResolver resolver;
    RedisConnection connection(settings.endpoints.at(0), settings, tls, resolver, deadline);
    connection.send(redis_command(words), deadline);
    return connection.reply(deadline);
  }
  RedisReply call(std::initializer_list<std::string_view> words) { return call(settings(), words); }

  const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
  std::vector<std::string> options_;
  int port_ = free_port();
  pid_t process_ = -1;
};

// Three nodes with a third of the slots each, and a proxy before each.
class RedisClusterServers {
 public:
  RedisClusterServers() {
    for (int i = 0; i < 3; ++i) {
      const std::string bus = std::to_string(free_port());
      const int announced = free_port();
      nodes_.emplace_back(std::vector<std::string>{
          "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000",
          "--cluster-announce-ip", "127.0.0.1", "--cluster-announce-bus-port", bus,
          "--cluster-announce-port", std::to_string(announced)});
      buses_.push_back(bus);
      proxies_.emplace_back(nodes_.back().endpoint(), announced);
    }
    const char* borders[] = {"0", "5460", "5461", "10922", "10923", "16383"};
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(nodes_[i].wait());
      nodes_[i].call({"CLUSTER", "ADDSLOTSRANGE", borders[2 * i], borders[2 * i + 1]});
      if (i == 0) continue;
      const std::string port = std::to_string(nodes_[i].endpoint().port);
      nodes_[0].call({"CLUSTER", "MEET", "127.0.0.1", port, buses_[i]});
    }
    for (RedisServer& node : nodes_) {
      EXPECT_TRUE(becomes_true([&] {
        return node.call({"CLUSTER", "INFO"}).text.find("cluster_state:ok") != std::string::npos &&
               node.call({"CLUSTER", "SLOTS"}).items.size() == 3;
      }));
    }
  }

  RedisServer& node(int number) { return nodes_[number]; }
  // What clients connect to, and what nodes say of each other.
  RedisProxy& proxy(int number) { return proxies_[number]; }
  // Knows one node only; the others must be found.
  RedisSettings settings() const {
    RedisSettings settings = nodes_[0].settings();
    settings.endpoints = {proxies_[0].endpoint()};
    return settings;
  }

 private:
  std::deque<RedisServer> nodes_;
  std::deque<RedisProxy> proxies_;
  std::vector<std::string> buses_;
};

}  // namespace emblem
