#include "comm/threads.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/host_name.h"
#include "core/caught_error.h"
#include "core/start_thread.h"

namespace emblem {
namespace {

struct State {
  int size = 0;
  std::chrono::duration<double> limit{};
  std::vector<RankHost> hosts;

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<RankError> failure;
  std::vector<std::span<const Piece>> sent;  // of the ranks in the current exchange
  std::vector<bool> has_arrived;
  int arrived = 0, copied = 0;
  uint64_t exchanges = 0, completed = 0;  // all have arrived; all have copied

  void throw_failure() const {
    if (failure) throw RankError(*failure);
  }

  // Returns when all ranks have posted what they send.
  void arrive(int rank, std::span<const Piece> send) {
    std::unique_lock lock(mutex);
    throw_failure();
    sent[static_cast<size_t>(rank)] = send;
    has_arrived[static_cast<size_t>(rank)] = true;
    const uint64_t mine = exchanges;
    if (++arrived == size) {
      arrived = 0;
      has_arrived.assign(has_arrived.size(), false);
      ++exchanges;
      changed.notify_all();
      return;
    }
    const bool in_time =
        changed.wait_for(lock, limit, [&] { return exchanges != mine || failure; });
    if (exchanges != mine) return;  // the others copy from this rank, also after a failure
    throw_failure();
    if (!in_time) throw Error(ErrorCode::kUnavailable, timeout_message());
  }

  // Returns when all ranks have copied what they receive: only then may memory be reused.
  void finish_copying() {
    std::unique_lock lock(mutex);
    const uint64_t mine = completed;
    if (++copied == size) {
      copied = 0;
      ++completed;
      changed.notify_all();
      return;
    }
    changed.wait(lock, [&] { return completed != mine; });
  }

  std::string timeout_message() const {
    for (size_t r = 0; r < has_arrived.size(); ++r)
      if (!has_arrived[r])
        return cat(name_of_rank(static_cast<int>(r), hosts[r].name), ": timed out after ",
                   limit.count(), " s waiting for it in exchange ", exchanges);
    return "exchange timed out";
  }

  void fail(int rank, const std::string& reason) {
    std::lock_guard lock(mutex);
    if (failure) return;
    failure.emplace(rank,
                    name_of_rank(rank, hosts[static_cast<size_t>(rank)].name) + ": " + reason);
    changed.notify_all();
  }
};

class ThreadRank : public Communicator {
 public:
  ThreadRank(std::shared_ptr<State> state, int rank)
      : shared_(std::move(state)), state_(*shared_), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return state_.size; }
  const std::vector<RankHost>& hosts() const override { return state_.hosts; }
  const char* transport() const override { return "threads"; }

  void fail(const std::string& reason) noexcept override {
    try {
      state_.fail(rank_, reason);
    } catch (...) {
      log_caught("reporting the failure of a rank");
    }
  }

  void check() const override {
    std::lock_guard lock(state_.mutex);
    state_.throw_failure();
  }

 protected:
  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) override {
    if (context.device != Device::kCpu)
      throw Error(ErrorCode::kUnsupported, "ranks that are threads exchange host memory only");
    state_.arrive(rank_, send);
    const std::string mismatch = copy_all(receive);
    state_.finish_copying();
    if (!mismatch.empty()) throw Error(ErrorCode::kInternal, mismatch);
  }

 private:
  // A message when sizes differ, else "".
  std::string copy_all(std::span<const Piece> receive) const {
    std::string mismatch;
    for (size_t i = 0; i < receive.size(); ++i) {
      // Every rank begins with another source, so that memory is not read in step.
      const size_t from = (i + static_cast<size_t>(rank_)) % receive.size();
      const Piece& source = state_.sent[from][static_cast<size_t>(rank_)];
      if (source.bytes != receive[from].bytes) {
        mismatch = cat("rank ", from, " sends ", source.bytes, " bytes, rank ", rank_, " expects ",
                       receive[from].bytes,
                       ": all ranks must call the same collectives with matching sizes");
      } else if (source.bytes > 0) {
        std::memcpy(receive[from].data, source.data, source.bytes);
      }
    }
    return mismatch;
  }

  const std::shared_ptr<State> shared_;
  State& state_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_ranks(int size, double collective_seconds) {
  EMBLEM_REQUIRE(size >= 1, "a communicator of ", size, " ranks: at least 1 is required");
  const auto state = std::make_shared<State>();
  state->size = size;
  state->limit = std::chrono::duration<double>(collective_seconds);
  state->sent.resize(static_cast<size_t>(size));
  state->has_arrived.resize(static_cast<size_t>(size));
  const std::string host = host_name();
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < size; ++r) {
    state->hosts.push_back({host, r});
    ranks.push_back(std::make_unique<ThreadRank>(state, r));
  }
  return ranks;
}

void run_thread_ranks(int size, const std::function<void(Communicator&)>& body,
                      double collective_seconds) {
  const auto ranks = make_thread_ranks(size, collective_seconds);
  std::mutex mutex;
  std::optional<Error> first;
  const auto run = [&](Communicator& rank) noexcept {
    try {
      body(rank);
    } catch (...) {
      const Error error = caught_error();
      {
        std::lock_guard lock(mutex);
        if (!first) first = error;
      }
      rank.fail(error.what());
    }
  };
  std::vector<std::thread> threads;
  try {
    for (const auto& rank : ranks)
      threads.push_back(start_thread("a rank", [&run, &rank = *rank] { run(rank); }));
  } catch (...) {
    ranks[0]->fail("cannot start all ranks");
    for (std::thread& thread : threads) thread.join();
    throw;
  }
  for (std::thread& thread : threads) thread.join();
  if (first) throw Error(*first);
}

}  // namespace emblem
