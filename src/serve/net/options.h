// serve/net/options.h - what the TCP servers of all protocols can be told.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace emblem {

inline constexpr size_t kSlowestBytesPerSecond = 65536;  // slower clients are cut off

struct NetOptions {
  std::string address = "0.0.0.0";
  uint16_t port = 0;  // 0: any that is free
  int threads = 2;
  // One more closes the connection that has been idle the longest; with none idle it is refused.
  size_t max_connections = 4096;
  // File descriptors that are kept for connections of this server alone: where the process has no
  // others left, it still accepts as many.
  size_t spare_descriptors = 0;
  // Time between requests.
  std::chrono::milliseconds idle_timeout = std::chrono::seconds(120);
  // Time for a request's header, and for its body; large bodies may take a second for each 64
  // KiB more.
  std::chrono::milliseconds read_timeout = std::chrono::seconds(30);
  // The clock by which timeouts are measured.
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
  // PEM files; both or none.
  std::string tls_certificate, tls_key;
  // PEM file: clients need a certificate that one of these authorities signed. Needs TLS.
  std::string tls_client_ca;
};

// Throws when `port` of `address` is in use or cannot be listened on; 0 is any free port.
void check_port(const std::string& address, uint16_t port);
// Throws when the files for TLS cannot be used.
void check_tls(const NetOptions& options);

}  // namespace emblem
