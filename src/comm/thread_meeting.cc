#include "comm/thread_meeting.h"

#include <thread>

namespace emblem {
namespace {

// Ranks of a GPU arrive within microseconds of each other, and waking a thread takes longer.
// Without a core for each rank, spinning would keep the others from arriving.
constexpr std::chrono::microseconds kSpinning{50};

}  // namespace

ThreadMeeting::ThreadMeeting(const std::vector<std::string>& hosts, double collective_seconds)
    : limit_(collective_seconds),
      spinning_(hosts.size() <= std::thread::hardware_concurrency() ? kSpinning
                                                                    : std::chrono::microseconds(0)),
      hosts_(rank_hosts(hosts)),
      streams_(hosts.size()),
      posted_(hosts.size()),
      has_arrived_(hosts.size()) {}

void ThreadMeeting::arrive(int rank, const PostedPieces& posted) {
  uint64_t mine = 0;
  {
    std::lock_guard lock(mutex_);
    throw_failure();
    posted_[static_cast<size_t>(rank)] = posted;
    has_arrived_[static_cast<size_t>(rank)] = true;
    mine = begun_;
    if (++arrived_ == size()) {
      arrived_ = 0;
      has_arrived_.assign(has_arrived_.size(), false);
      ++begun_;
      changed_.notify_all();
      return;
    }
  }
  spin_while(begun_, mine);
  if (begun_ != mine) return;
  std::unique_lock lock(mutex_);
  const bool in_time = changed_.wait_for(lock, limit_, [&] { return begun_ != mine || failure_; });
  if (begun_ != mine) return;  // the others copy from this rank, also after a failure
  throw_failure();
  if (!in_time) throw Error(ErrorCode::kUnavailable, timeout_message());
}

void ThreadMeeting::finish() {
  uint64_t mine = 0;
  {
    std::lock_guard lock(mutex_);
    mine = completed_;
    if (++finished_ == size()) {
      finished_ = 0;
      ++completed_;
      changed_.notify_all();
      return;
    }
  }
  spin_while(completed_, mine);
  if (completed_ != mine) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_ != mine; });
}

void ThreadMeeting::spin_while(const std::atomic<uint64_t>& counter, uint64_t value) const {
  const auto until = std::chrono::steady_clock::now() + spinning_;
  while (counter == value && std::chrono::steady_clock::now() < until) std::this_thread::yield();
}

void ThreadMeeting::fail(int rank, const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_.emplace(rank,
                   name_of_rank(rank, hosts_[static_cast<size_t>(rank)].name) + ": " + reason);
  changed_.notify_all();
}

void ThreadMeeting::check() const {
  std::lock_guard lock(mutex_);
  throw_failure();
}

void ThreadMeeting::throw_failure() const {
  if (failure_) throw RankError(*failure_);
}

std::string ThreadMeeting::timeout_message() const {
  for (size_t r = 0; r < has_arrived_.size(); ++r)
    if (!has_arrived_[r])
      return cat(name_of_rank(static_cast<int>(r), hosts_[r].name), ": timed out after ",
                 limit_.count(), " s waiting for it in exchange ", begun_.load());
  return "exchange timed out";
}

}  // namespace emblem
