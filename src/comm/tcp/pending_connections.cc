#include "comm/tcp/pending_connections.h"

#include <algorithm>
#include <cerrno>

#include "core/system/log.h"

namespace emblem {
namespace {

// Before the first message. Where there is no room, those who say nothing make some for ranks.
constexpr auto kLongestSilence = std::chrono::seconds(10);
constexpr auto kLongestWhenFull = std::chrono::seconds(1);
constexpr auto kAnswerTime = std::chrono::milliseconds(100);  // it fits the buffer of a new socket
constexpr int kMostReports = 5;

}  // namespace

void PendingConnections::add_to(std::vector<pollfd>& waiting) const {
  if (!is_full_) waiting.push_back({listener_.get(), POLLIN, 0});
  for (const Pending& one : pending_) waiting.push_back({one.connection.get(), POLLIN, 0});
}

std::vector<PendingConnections::Arrived> PendingConnections::collect() {
  accept_all();
  std::vector<Arrived> arrived;
  const size_t erased =
      std::erase_if(pending_, [&](Pending& one) { return !read_first(one, arrived); });
  if (erased > 0) is_full_ = false;
  return arrived;
}

void PendingConnections::accept_all() {
  while (pending_.size() < limits_.connections) {
    FileDescriptor connection = accept_connection(listener_.get());
    if (connection.get() < 0) {
      is_full_ = errno == EMFILE || errno == ENFILE;
      return;
    }
    Pending& added = pending_.emplace_back();
    added.connection = std::move(connection);
    added.accepted = limits_.clock();
  }
  is_full_ = true;
}

bool PendingConnections::read_first(Pending& pending, std::vector<Arrived>& arrived) {
  const int socket = pending.connection.get();
  try {
    ReceivedMessage received = receive_message(socket, pending.reader);
    if (received.message) return take(pending, std::move(*received.message), arrived);
    if (!received.end.empty()) return false;  // a port scan, or a rank that ended
  } catch (const Error& error) {
    report(socket, error.what());
    return false;
  }
  const auto patience = is_full_ ? kLongestWhenFull : kLongestSilence;
  if (limits_.clock() < pending.accepted + patience) return true;
  report(socket, cat("no message within ", patience.count(), " s").c_str());
  return false;
}

// The messages of a connection, one after the other (comm/tcp/secret.h).
bool PendingConnections::take(Pending& pending, Message message, std::vector<Arrived>& arrived) {
  const bool is_challenge = message.kind == MessageKind::kChallenge;
  if (secret_.empty() && is_challenge)
    return refuse(pending, cat("this rank was started without the secret of a job, the other with "
                               "one; start all ranks with the same ",
                               kSecretVariable));
  if (secret_.empty()) {
    arrived.push_back({std::move(pending.connection), std::move(message)});
    return false;
  }
  if (!pending.challenge) {
    if (!is_challenge)
      return refuse(pending, cat("the ranks of this job share a secret; start all ranks with the "
                                 "same ",
                                 kSecretVariable));
    pending.challenge = std::move(message);
  } else if (!pending.first) {
    pending.proof.emplace(secret_, *pending.challenge, message);
    pending.first = std::move(message);
    return send_all(pending.connection.get(), pending.proof->challenge(),
                    std::chrono::steady_clock::now() + kAnswerTime)
        .empty();
  } else if (pending.proof->is_proved(message)) {
    arrived.push_back({std::move(pending.connection), std::move(*pending.first)});
    return false;
  } else {
    return refuse(pending, "it does not know the secret of this job");
  }
  return true;
}

// Tells the other end, which may have been started by mistake, and drops it.
bool PendingConnections::refuse(Pending& pending, const std::string& line) {
  report(pending.connection.get(), line.c_str());
  send_all(pending.connection.get(), encode(MessageKind::kRefused, line),
           std::chrono::steady_clock::now() + kAnswerTime);
  return false;
}

void PendingConnections::report(int connection, const char* reason) {
  if (++reports_ > kMostReports) return;
  log_warn(cat("ignored a connection from ", ip_of(peer_address(connection)), ": ", reason,
               reports_ == kMostReports ? "; further ones are not reported" : ""));
}

}  // namespace emblem
