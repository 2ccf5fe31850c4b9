#include "comm/threads/threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/piece_copies.h"
#include "comm/tcp/host_name.h"
#include "core/system/caught_error.h"
#include "core/threads/start_thread.h"

namespace emblem {
namespace {

// What a rank shows the others in an exchange.
struct PostedPieces {
  std::span<const Piece> send;  // by rank
  Device device = Device::kCpu;
  cuda::RankStream* stream = nullptr;  // on a GPU
};

// Where ranks that are threads of one process meet for an exchange: arrive(), copying what the
// others have posted, finish(). Thread-safe.
class ThreadRendezvous {
 public:
  // A rank for each of `hosts`, the name of its host.
  ThreadRendezvous(const std::vector<std::string>& hosts, double collective_seconds);

  int size() const { return static_cast<int>(hosts_.size()); }
  const std::vector<RankHost>& hosts() const { return hosts_; }

  // Returns when all ranks have posted what they send. Throws RankError when a rank has failed, and
  // Error (kUnavailable) after the time limit.
  void arrive(int rank, const PostedPieces& posted);
  // What a rank has posted. Between arrive() and finish().
  const PostedPieces& posted(size_t rank) const { return posted_[rank]; }
  // Returns when all ranks have called it: what was posted is not used any more.
  void finish();

  void fail(int rank, const std::string& reason);
  void check() const;

  // The stream of a rank's exchanges on a GPU; it lives as long as the rendezvous, since others
  // wait for it after the rank has left. Null until the rank sets it.
  std::shared_ptr<cuda::RankStream>& stream(int rank) {
    return streams_[static_cast<size_t>(rank)];
  }

 private:
  void spin_while(const std::atomic<uint64_t>& counter, uint64_t value) const;
  void throw_failure() const;
  std::string timeout_message() const;

  const std::chrono::duration<double> limit_;
  const std::chrono::nanoseconds spinning_;
  std::vector<RankHost> hosts_;
  std::vector<std::shared_ptr<cuda::RankStream>> streams_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<RankError> failure_;
  std::vector<PostedPieces> posted_;
  std::vector<bool> has_arrived_;
  int arrived_ = 0, finished_ = 0;
  // Exchanges in which all have arrived, and in which all have finished.
  std::atomic<uint64_t> begun_{0}, completed_{0};
};

// Ranks of a GPU arrive within microseconds of each other, and waking a thread takes longer.
// Without a core for each rank, spinning would keep the others from arriving.
constexpr std::chrono::microseconds kSpinning{50};

ThreadRendezvous::ThreadRendezvous(const std::vector<std::string>& hosts, double collective_seconds)
    : limit_(collective_seconds),
      spinning_(hosts.size() <= std::thread::hardware_concurrency() ? kSpinning
                                                                    : std::chrono::microseconds(0)),
      hosts_(rank_hosts(hosts)),
      streams_(hosts.size()),
      posted_(hosts.size()),
      has_arrived_(hosts.size()) {}

void ThreadRendezvous::arrive(int rank, const PostedPieces& posted) {
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

void ThreadRendezvous::finish() {
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

void ThreadRendezvous::spin_while(const std::atomic<uint64_t>& counter, uint64_t value) const {
  const auto until = std::chrono::steady_clock::now() + spinning_;
  while (counter == value && std::chrono::steady_clock::now() < until) std::this_thread::yield();
}

void ThreadRendezvous::fail(int rank, const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_.emplace(rank,
                   name_of_rank(rank, hosts_[static_cast<size_t>(rank)].name) + ": " + reason);
  changed_.notify_all();
}

void ThreadRendezvous::check() const {
  std::lock_guard lock(mutex_);
  throw_failure();
}

void ThreadRendezvous::throw_failure() const {
  if (failure_) throw RankError(*failure_);
}

std::string ThreadRendezvous::timeout_message() const {
  for (size_t r = 0; r < has_arrived_.size(); ++r)
    if (!has_arrived_[r])
      return cat(name_of_rank(static_cast<int>(r), hosts_[r].name), ": timed out after ",
                 limit_.count(), " s waiting for it in exchange ", begun_.load());
  return "exchange timed out";
}

class ThreadRank : public Communicator {
 public:
  ThreadRank(std::shared_ptr<ThreadRendezvous> rendezvous, int rank)
      : shared_(std::move(rendezvous)), rendezvous_(*shared_), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return rendezvous_.size(); }
  const std::vector<RankHost>& hosts() const override { return rendezvous_.hosts(); }
  const char* transport() const override { return "threads"; }

  void fail(const std::string& reason) noexcept override {
    try {
      rendezvous_.fail(rank_, reason);
    } catch (...) {
      log_caught("reporting the failure of a rank");
    }
  }

  void check() const override { rendezvous_.check(); }

  bool can_use_peer_memory(const Context& context) override {
    return dispatch(
        context.device, [] { return false; },
        [&] {
          int own = stream_here().gpu();
          std::vector<int> all(static_cast<size_t>(size()));
          gather_all(Context{}, {&own, sizeof(own)}, {all.data(), all.size() * sizeof(own)});
          return std::all_of(all.begin(), all.end(), [&](int gpu) { return gpu == own; });
        });
  }

  void use_peer_memory(const Context& context, std::span<const Piece> shared,
                       const UsePeerMemory& use) override {
    dispatch(
        context.device, [&] { Communicator::use_peer_memory(context, shared, use); },
        [&] {
          share_on_gpu(context, shared, [&] {
            std::vector<Piece> peers;
            for (size_t from = 0; from < shared.size(); ++from)
              peers.push_back(rendezvous_.posted(from).send[static_cast<size_t>(rank_)]);
            use(peers);
          });
        });
  }

 protected:
  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) override {
    dispatch(
        context.device, [&] { exchange_on_cpu(send, receive); },
        [&] { exchange_on_gpu(context, send, receive); });
  }

 private:
  void exchange_on_cpu(std::span<const Piece> send, std::span<const Piece> receive) {
    rendezvous_.arrive(rank_, {.send = send});
    copy_and_finish([&] {
      for_each_source(receive, Device::kCpu, [](size_t, const Piece& from, const Piece& to) {
        std::memcpy(to.data, from.data, from.bytes);
      });
    });
  }

  // Copies are enqueued on the stream of the rank that receives.
  void exchange_on_gpu(const Context& context, std::span<const Piece> send,
                       std::span<const Piece> receive) {
    share_on_gpu(context, send, [&] { enqueue_copies(context, receive); });
  }

  // What `use` enqueues waits for what the owners have enqueued, and their streams wait for it: an
  // owner may overwrite its memory afterwards.
  template <class Use>
  void share_on_gpu(const Context& context, std::span<const Piece> shared, const Use& use) {
    cuda::RankStream& own = stream_here();
    own.ready.record(context.stream);
    rendezvous_.arrive(rank_, {.send = shared, .device = Device::kCuda, .stream = &own});
    copy_and_finish([&] {
      for (size_t from = 0; from < shared.size(); ++from) {
        const PostedPieces& posted = rendezvous_.posted(from);
        if (posted.stream != &own && posted.stream != nullptr &&
            posted.send[static_cast<size_t>(rank_)].bytes > 0)
          posted.stream->ready.make_wait(context.stream);
      }
      use();
      own.used.record(context.stream);
    });
    for (int to = 0; to < size(); ++to)
      if (to != rank_ && shared[static_cast<size_t>(to)].bytes > 0)
        rendezvous_.stream(to)->used.make_wait(context.stream);
  }

  cuda::RankStream& stream_here() {
    std::shared_ptr<cuda::RankStream>& own = rendezvous_.stream(rank_);
    if (!own) own = std::make_shared<cuda::RankStream>();
    return *own;
  }

  void enqueue_copies(const Context& context, std::span<const Piece> receive) {
    cuda::RankStream& own = stream_here();
    near_.clear();
    for_each_source(receive, Device::kCuda, [&](size_t rank, const Piece& from, const Piece& to) {
      const cuda::RankStream& sender = *rendezvous_.posted(rank).stream;
      if (sender.gpu() == own.gpu()) {
        near_.push_back({to.data, from.data, from.bytes});
      } else {
        own.reach(sender.gpu());
        cuda::copy_async(context, to.data, from.data, from.bytes);
      }
    });
    cuda::copy_pieces(context, near_);
  }

  // The others wait in finish() for this rank, even if it cannot copy.
  template <class Copy>
  void copy_and_finish(const Copy& copy) {
    std::exception_ptr problem;
    try {
      copy();
    } catch (...) {
      problem = std::current_exception();
    }
    rendezvous_.finish();
    if (problem) std::rethrow_exception(problem);
  }

  // Calls `copy` for each rank that sends something. Throws when sizes or devices differ.
  template <class Copy>
  void for_each_source(std::span<const Piece> receive, Device device, const Copy& copy) const {
    for (size_t i = 0; i < receive.size(); ++i) {
      // Every rank begins with another source, so that memory is not read in step.
      const size_t from = (i + static_cast<size_t>(rank_)) % receive.size();
      const PostedPieces& posted = rendezvous_.posted(from);
      const Piece& source = posted.send[static_cast<size_t>(rank_)];
      if (source.bytes != receive[from].bytes)
        throw Error(ErrorCode::kInternal,
                    cat("rank ", from, " sends ", source.bytes, " bytes, rank ", rank_, " expects ",
                        receive[from].bytes,
                        ": all ranks must call the same collectives with matching sizes"));
      if (posted.device != device)
        throw Error(ErrorCode::kInternal,
                    cat("rank ", from, " sends memory of device ", posted.device, ", rank ", rank_,
                        " receives into memory of ", device,
                        ": all ranks must call a collective for the same kind of device"));
      if (source.bytes > 0) copy(from, source, receive[from]);
    }
  }

  const std::shared_ptr<ThreadRendezvous> shared_;
  ThreadRendezvous& rendezvous_;
  const int rank_;
  std::vector<cuda::PieceCopy> near_;  // copies of the current exchange within one GPU
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_ranks(
    int size, double collective_seconds, const std::vector<std::string>& hosts) {
  EMBLEM_REQUIRE(size >= 1, "a communicator of ", size, " ranks: at least 1 is required");
  EMBLEM_REQUIRE(hosts.empty() || hosts.size() == static_cast<size_t>(size), size,
                 " ranks with the names of ", hosts.size(), " hosts: one for each is required");
  const auto rendezvous = std::make_shared<ThreadRendezvous>(
      hosts.empty() ? std::vector<std::string>(static_cast<size_t>(size), rank_host_name()) : hosts,
      collective_seconds);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<ThreadRank>(rendezvous, r));
  return ranks;
}

void run_thread_ranks(int size, const std::function<void(Communicator&)>& body,
                      double collective_seconds, const std::vector<std::string>& hosts) {
  const auto ranks = make_thread_ranks(size, collective_seconds, hosts);
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
