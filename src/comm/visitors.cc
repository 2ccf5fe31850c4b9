#include "comm/visitors.h"

#include <algorithm>

#include "core/log.h"

namespace emblem {
namespace {

constexpr auto kLongestSilence = std::chrono::seconds(10);  // before the first message
constexpr size_t kMostPending = 4096;
constexpr int kMostReports = 5;

}  // namespace

void Visitors::add_to(std::vector<pollfd>& waiting) const {
  waiting.push_back({listener_.get(), POLLIN, 0});
  for (const Pending& one : pending_) waiting.push_back({one.connection.get(), POLLIN, 0});
}

std::vector<Visitors::Arrived> Visitors::collect() {
  while (pending_.size() < kMostPending) {
    FileDescriptor connection = accept_connection(listener_.get());
    if (connection.get() < 0) break;
    pending_.push_back({std::move(connection), MessageReader(MessageReader::Start::kMagic),
                        std::chrono::steady_clock::now() + kLongestSilence});
  }
  std::vector<Arrived> arrived;
  std::erase_if(pending_, [&](Pending& one) { return !read_first(one, arrived); });
  return arrived;
}

bool Visitors::read_first(Pending& pending, std::vector<Arrived>& arrived) {
  const int socket = pending.connection.get();
  try {
    ReceivedMessage received = receive_message(socket, pending.reader);
    if (received.message) {
      arrived.push_back({std::move(pending.connection), std::move(*received.message)});
      return false;
    }
    if (!received.end.empty()) return false;  // a port scan, or a rank that ended
  } catch (const Error& error) {
    report(socket, error.what());
    return false;
  }
  if (std::chrono::steady_clock::now() < pending.deadline) return true;
  report(socket, "no message within 10 s");
  return false;
}

void Visitors::report(int connection, const char* reason) {
  if (++reports_ > kMostReports) return;
  log_warn(cat("ignored a connection from ", ip_of(peer_address(connection)), ": ", reason,
               reports_ == kMostReports ? "; further ones are not reported" : ""));
}

}  // namespace emblem
