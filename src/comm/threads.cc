#include "comm/threads.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/host_name.h"
#include "comm/piece_copies.h"
#include "comm/thread_meeting.h"
#include "core/caught_error.h"
#include "core/start_thread.h"

namespace emblem {
namespace {

class ThreadRank : public Communicator {
 public:
  ThreadRank(std::shared_ptr<ThreadMeeting> meeting, int rank)
      : shared_(std::move(meeting)), meeting_(*shared_), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_.size(); }
  const std::vector<RankHost>& hosts() const override { return meeting_.hosts(); }
  const char* transport() const override { return "threads"; }

  void fail(const std::string& reason) noexcept override {
    try {
      meeting_.fail(rank_, reason);
    } catch (...) {
      log_caught("reporting the failure of a rank");
    }
  }

  void check() const override { meeting_.check(); }

  bool can_lend(const Context& context) override {
    return dispatch(
        context.device, [] { return false; },
        [&] {
          int own = stream_here().gpu();
          std::vector<int> all(static_cast<size_t>(size()));
          gather_all(Context{}, {&own, sizeof(own)}, {all.data(), all.size() * sizeof(own)});
          return std::all_of(all.begin(), all.end(), [&](int gpu) { return gpu == own; });
        });
  }

  void lend(const Context& context, std::span<const Piece> lent, const UseLent& use) override {
    dispatch(
        context.device, [&] { Communicator::lend(context, lent, use); },
        [&] {
          lend_on_gpu(context, lent, [&] {
            std::vector<Piece> borrowed;
            for (size_t from = 0; from < lent.size(); ++from)
              borrowed.push_back(meeting_.posted(from).send[static_cast<size_t>(rank_)]);
            use(borrowed);
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
    meeting_.arrive(rank_, {.send = send});
    copy_and_finish([&] {
      for_each_source(receive, Device::kCpu, [](size_t, const Piece& from, const Piece& to) {
        std::memcpy(to.data, from.data, from.bytes);
      });
    });
  }

  // Copies are enqueued on the stream of the rank that receives.
  void exchange_on_gpu(const Context& context, std::span<const Piece> send,
                       std::span<const Piece> receive) {
    lend_on_gpu(context, send, [&] { enqueue_copies(context, receive); });
  }

  // What `use` enqueues waits for what the lenders have enqueued, and their streams wait for it: a
  // lender may overwrite what it lent.
  template <class Use>
  void lend_on_gpu(const Context& context, std::span<const Piece> lent, const Use& use) {
    cuda::RankStream& own = stream_here();
    own.ready.record(context.stream);
    meeting_.arrive(rank_, {.send = lent, .device = Device::kCuda, .stream = &own});
    copy_and_finish([&] {
      for (size_t from = 0; from < lent.size(); ++from) {
        const PostedPieces& posted = meeting_.posted(from);
        if (posted.stream != &own && posted.stream != nullptr &&
            posted.send[static_cast<size_t>(rank_)].bytes > 0)
          posted.stream->ready.make_wait(context.stream);
      }
      use();
      own.used.record(context.stream);
    });
    for (int to = 0; to < size(); ++to)
      if (to != rank_ && lent[static_cast<size_t>(to)].bytes > 0)
        meeting_.stream(to)->used.make_wait(context.stream);
  }

  cuda::RankStream& stream_here() {
    std::shared_ptr<cuda::RankStream>& own = meeting_.stream(rank_);
    if (!own) own = std::make_shared<cuda::RankStream>();
    return *own;
  }

  void enqueue_copies(const Context& context, std::span<const Piece> receive) {
    cuda::RankStream& own = stream_here();
    near_.clear();
    for_each_source(receive, Device::kCuda, [&](size_t rank, const Piece& from, const Piece& to) {
      const cuda::RankStream& sender = *meeting_.posted(rank).stream;
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
    meeting_.finish();
    if (problem) std::rethrow_exception(problem);
  }

  // Calls `copy` for each rank that sends something. Throws when sizes or devices differ.
  template <class Copy>
  void for_each_source(std::span<const Piece> receive, Device device, const Copy& copy) const {
    for (size_t i = 0; i < receive.size(); ++i) {
      // Every rank begins with another source, so that memory is not read in step.
      const size_t from = (i + static_cast<size_t>(rank_)) % receive.size();
      const PostedPieces& posted = meeting_.posted(from);
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

  const std::shared_ptr<ThreadMeeting> shared_;
  ThreadMeeting& meeting_;
  const int rank_;
  std::vector<cuda::PieceCopy> near_;  // of the current exchange, within one GPU
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_ranks(
    int size, double collective_seconds, const std::vector<std::string>& hosts) {
  EMBLEM_REQUIRE(size >= 1, "a communicator of ", size, " ranks: at least 1 is required");
  EMBLEM_REQUIRE(hosts.empty() || hosts.size() == static_cast<size_t>(size), size,
                 " ranks with the names of ", hosts.size(), " hosts: one for each is required");
  const auto meeting = std::make_shared<ThreadMeeting>(
      hosts.empty() ? std::vector<std::string>(static_cast<size_t>(size), rank_host_name()) : hosts,
      collective_seconds);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<ThreadRank>(meeting, r));
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
