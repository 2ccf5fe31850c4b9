#include "store/redis/redis_node.h"

#ifdef EMBLEM_WITH_REDIS

namespace emblem {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kFirstPause{20}, kLongestPause{1000};

}  // namespace

bool RedisNode::pausing() const {
  std::lock_guard lock(mutex_);
  return std::chrono::steady_clock::now() < silent_until_;
}

void RedisNode::note_failure() {
  std::lock_guard lock(mutex_);
  pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause);
  silent_until_ = std::chrono::steady_clock::now() + pause_;
}

void RedisNode::close_idle() {
  std::lock_guard lock(mutex_);
  open_ -= static_cast<int>(idle_.size());
  idle_.clear();
  freed_.notify_all();
}

void RedisNode::refuse() const {
  throw Error(ErrorCode::kUnavailable,
              cat("redis at ", endpoint_.text(), " does not answer; it is asked again soon"));
}

RedisNode::Lease RedisNode::lease(Deadline deadline) {
  bool probes = false;
  {
    std::lock_guard lock(mutex_);
    if (std::chrono::steady_clock::now() < silent_until_ || is_probed_) refuse();
    probes = is_probed_ = pause_ > milliseconds(0);
  }
  if (probes) probe(deadline);
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return !idle_.empty() || open_ < settings_.connections_per_node; };
  if (!freed_.wait_until(lock, deadline, ready)) {
    throw Error(ErrorCode::kUnavailable,
                cat("redis at ", endpoint_.text(), ": all ", settings_.connections_per_node,
                    " connections are in use (num_node_connections allows more)"));
  }
  if (!idle_.empty()) {
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return {*this, std::move(connection), true};
  }
  ++open_;
  lock.unlock();
  return connect(deadline);
}

// With a connection of its own: those of callers that still wait for replies may be all there are.
void RedisNode::probe(Deadline deadline) {
  const Deadline soon = std::min(
      deadline, std::chrono::steady_clock::now() + milliseconds(settings_.connect_timeout_ms));
  try {
    RedisConnection connection(endpoint_, settings_, tls_, resolver_, soon);
    connection.send(redis_command({"PING"}), soon);
    connection.reply(soon);
  } catch (...) {
    note_failure();
    std::lock_guard lock(mutex_);
    is_probed_ = false;
    throw;
  }
  std::lock_guard lock(mutex_);
  is_probed_ = false;
  pause_ = milliseconds(0);
  silent_until_ = {};
  // What was open before the failure may be dead.
  open_ -= static_cast<int>(idle_.size());
  idle_.clear();
  freed_.notify_all();
}

// A place is taken for it.
RedisNode::Lease RedisNode::connect(Deadline deadline) {
  try {
    const Deadline connected =
        std::chrono::steady_clock::now() + milliseconds(settings_.connect_timeout_ms);
    return {*this,
            std::make_unique<RedisConnection>(endpoint_, settings_, tls_, resolver_,
                                              std::min(connected, deadline)),
            false};
  } catch (...) {
    note_failure();
    close(nullptr);
    throw;
  }
}

void RedisNode::close(std::unique_ptr<RedisConnection> connection) {
  connection.reset();
  std::lock_guard lock(mutex_);
  --open_;
  freed_.notify_one();
}

void RedisNode::take_back(std::unique_ptr<RedisConnection> connection) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
  pause_ = milliseconds(0);
  silent_until_ = {};
  freed_.notify_one();
}

}  // namespace emblem

#endif
