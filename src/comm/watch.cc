#include "comm/watch.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "comm/tcp/socket.h"
#include "core/system/caught_error.h"
#include "core/threads/start_thread.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

// Time for the failure report of a rank whose connection ended.
constexpr auto kFailureReportTime = std::chrono::seconds(1);
constexpr auto kNoticeTime = std::chrono::seconds(1);
constexpr auto kArbiterTime = std::chrono::seconds(2);  // for rank 0's answer to a report

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

FileDescriptor make_event() {
  FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (event.get() < 0)
    throw Error(ErrorCode::kUnavailable, cat("cannot make an event: ", std::strerror(errno)));
  return event;
}

void signal(const FileDescriptor& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event.get(), &one, sizeof(one));
}

}  // namespace

struct Watch::Peer {
  int rank = 0;
  FileDescriptor connection;
  MessageReader reader{MessageReader::Start::kMessage};
  Clock::time_point heard{};
  bool is_open = true, is_leaving = false;
};

Watch::Watch(int rank, const std::vector<RankHost>& hosts, std::vector<FileDescriptor> control,
             const WatchSettings& settings)
    : rank_(rank),
      hosts_(hosts),
      settings_(settings),
      failed_(make_event()),
      commands_(make_event()) {
  for (size_t i = 0; i < control.size(); ++i) {
    if (control[i].get() < 0) continue;
    auto peer = std::make_unique<Peer>(Peer{static_cast<int>(i), std::move(control[i])});
    peer->heard = Clock::now();
    peers_.push_back(std::move(peer));
  }
  last_round_ = Clock::now();
  thread_ = start_thread("heartbeats", [this] {
    try {
      run();
    } catch (...) {
      fail(rank_, caught_error().what());
    }
  });
}

Watch::~Watch() {
  {
    std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake();
  thread_.join();
}

std::string Watch::name(int rank) const {
  return name_of_rank(rank, hosts_.at(static_cast<size_t>(rank)).name);
}

void Watch::wake() const { signal(commands_); }

void Watch::check() const {
  std::lock_guard lock(mutex_);
  if (failure_) throw RankError(failure_->rank, failure_->line);
}

void Watch::fail(int rank, const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (failure_ || report_) return;
    Failure failure{rank, name(rank) + ": " + reason};
    if (rank_ == 0 || rank == 0) {
      failure_ = std::move(failure);
      signal(failed_);
    } else {
      report_ = std::move(failure);
      verdict_by_ = Clock::now() + kArbiterTime;
    }
  }
  changed_.notify_all();
  wake();
}

void Watch::throw_failure(int rank, const std::string& reason) {
  fail(rank, reason);
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 2 * kArbiterTime, [&] { return failure_.has_value(); });
  }
  check();
  throw RankError(rank, name(rank) + ": " + reason);
}

void Watch::throw_lost(int rank, const std::string& reason) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kFailureReportTime, [&] { return failure_.has_value(); });
  }
  throw_failure(rank, reason);
}

void Watch::leave() {
  {
    std::lock_guard lock(mutex_);
    is_leaving_ = true;
  }
  wake();
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, duration_of(settings_.leave_seconds) + std::chrono::seconds(1),
                    [&] { return is_ending_ || failure_; });
}

void Watch::run() {
  while (true) {
    wait_for_events();
    // After a pause of this process itself (SIGSTOP, a suspended machine) no rank has failed.
    const auto now = Clock::now();
    const bool was_paused = now - last_round_ > duration_of(settings_.silence_seconds / 2);
    last_round_ = now;
    for (const auto& peer : peers_) {
      if (was_paused) peer->heard = now;
      read_from(*peer);
    }
    judge_silence();
    adopt_report();
    send_heartbeats();
    announce();
    report_if_stuck();
    if (has_left()) return;
  }
}

void Watch::wait_for_events() {
  std::vector<pollfd> waiting = {{commands_.get(), POLLIN, 0}};
  for (const auto& peer : peers_)
    if (peer->is_open) waiting.push_back({peer->connection.get(), POLLIN, 0});
  const auto longest = duration_of(std::min(settings_.heartbeat_seconds, 1.0) / 2);
  poll(waiting.data(), waiting.size(), poll_timeout(Clock::now() + longest));
  uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = ::read(commands_.get(), &ignored, sizeof(ignored));
}

void Watch::read_from(Peer& peer) {
  while (peer.is_open) {
    ReceivedMessage received;
    try {
      received = receive_message(peer.connection.get(), peer.reader);
    } catch (const Error& error) {
      received.end = error.what();
    }
    if (received.message) {
      peer.heard = Clock::now();
      handle(peer, *received.message);
    } else if (received.end.empty()) {
      return;
    } else {
      peer.is_open = false;
      if (!peer.is_leaving)
        fail(peer.rank, received.end == "closed" || received.end == std::strerror(ECONNRESET)
                            ? "connection closed without a message; it was killed or it crashed"
                            : "connection lost: " + received.end);
    }
  }
}

void Watch::handle(Peer& peer, const Message& message) {
  if (message.kind == MessageKind::kGoodbye) peer.is_leaving = true;
  if (message.kind != MessageKind::kFailed) return;
  const Failure failure = decode_failure(message);
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
  }
  signal(failed_);
  changed_.notify_all();
}

void Watch::send_heartbeats() {
  if (Clock::now() < next_heartbeat_) return;
  next_heartbeat_ = Clock::now() + duration_of(settings_.heartbeat_seconds);
  const std::string heartbeat = encode(MessageKind::kHeartbeat);
  for (const auto& peer : peers_) send(*peer, heartbeat);
}

void Watch::judge_silence() {
  for (const auto& peer : peers_) {
    if (!peer->is_open || peer->is_leaving) continue;
    if (Clock::now() - peer->heard < duration_of(settings_.silence_seconds)) continue;
    fail(peer->rank, cat("no heartbeat for ", settings_.silence_seconds,
                         " s; its process is stopped, or its host is unreachable"));
  }
}

// Rank 0 does not answer, or is gone: what this rank found counts.
void Watch::adopt_report() {
  {
    std::lock_guard lock(mutex_);
    if (!report_ || failure_) return;
    if (peers_.front()->is_open && Clock::now() < verdict_by_) return;
    failure_ = report_;
    signal(failed_);
  }
  changed_.notify_all();
}

// A report to rank 0; the failure, or that this rank leaves, to everyone. Each once.
void Watch::announce() {
  std::optional<Failure> failure, report;
  bool is_leaving = false;
  {
    std::lock_guard lock(mutex_);
    failure = failure_;
    report = report_;
    is_leaving = is_leaving_;
  }
  if (report && !has_reported_) {
    has_reported_ = true;
    send(*peers_.front(), encode(*report));
  }
  if (failure && !has_announced_) {
    has_announced_ = true;
    failed_at_ = Clock::now();
    for (const auto& peer : peers_) send(*peer, encode(*failure));
  }
  if (is_leaving && !has_sent_goodbye_) {
    has_sent_goodbye_ = true;
    leave_by_ = Clock::now() + duration_of(settings_.leave_seconds);
    for (const auto& peer : peers_) send(*peer, encode(MessageKind::kGoodbye));
  }
}

bool Watch::has_left() {
  const bool all_gone = std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) {
    return !peer->is_open || peer->is_leaving;
  });
  {
    std::lock_guard lock(mutex_);
    // What changed since announce() is announced in the next round.
    if ((failure_ && !has_announced_) || (report_ && !has_reported_)) return false;
    if (is_leaving_ && !has_sent_goodbye_) return false;
    if (!is_ending_ && !(is_leaving_ && (all_gone || Clock::now() > leave_by_))) return false;
    is_ending_ = true;
  }
  changed_.notify_all();
  return true;
}

void Watch::report_if_stuck() {
  if (!has_announced_ || has_reported_stuck_ || !settings_.on_stuck) return;
  if (Clock::now() - failed_at_ < duration_of(settings_.stuck_seconds)) return;
  has_reported_stuck_ = true;
  std::string line;
  {
    std::lock_guard lock(mutex_);
    line = failure_->line;
  }
  settings_.on_stuck(line);
}

void Watch::send(Peer& peer, const std::string& message) {
  if (!peer.is_open) return;
  // A reader that stands still fills its buffers only after thousands of heartbeats: silence has
  // ended the job by then. Other errors show when reading.
  send_all(peer.connection.get(), message, Clock::now() + kNoticeTime);
}

}  // namespace emblem
