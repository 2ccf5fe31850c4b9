#include "comm/nccl/nccl.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

#include "comm/nccl/device_communicator.h"
#include "comm/nccl/nccl_library.h"
#include "comm/nccl/rank_gpu.h"
#include "core/device/gpu.h"
#include "core/device/stream.h"
#include "core/system/caught_error.h"
#include "core/system/log.h"
#include "core/threads/start_thread.h"

namespace emblem::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookInterval = std::chrono::milliseconds(100);
// NCCL notices a lost rank before anyone can say why it is lost.
constexpr auto kVerdictTime = std::chrono::seconds(2);
// Time for a call of NCCL under way when the ranks fail. One that waits for a lost rank does not
// return.
constexpr auto kCallTime = std::chrono::seconds(1);

void set(const SetVariable& set_variable, const char* name, const std::string& value) {
  if (set_variable) return set_variable(name, value);
  log_warn(cat("NCCL needs ", name, "=", value, " in the environment of this rank"));
}

// A rank that starts others hands down its environment: a value that was set here is not theirs.
constexpr char kOwnHostId[] = "-emblem-rank-";

void set_host_id(const SetVariable& set_variable, const std::string& host, size_t rank) {
  const char* given = std::getenv("NCCL_HOSTID");
  const std::string value = cat(host, kOwnHostId, rank);
  if (given != nullptr &&
      (given == value || std::string_view(given).find(kOwnHostId) == std::string_view::npos))
    return;
  set(set_variable, "NCCL_HOSTID", value);
}

// NCCL reads both variables once in a process, when it is first used.
void allow_shared_gpus(Communicator& control, const SetVariable& set_variable) {
  const std::vector<GpuId> gpus = gather_gpus(control, gpu_uuid());
  const std::vector<RankHost>& hosts = control.hosts();
  const auto rank = static_cast<size_t>(control.rank());
  const size_t sharing = ranks_that_share(gpus);
  if (sharing == 0) return;
  if (rank == 0)
    log_info(cat(sharing,
                 " ranks share a GPU with another: NCCL connects them by sockets "
                 "(NCCL_HOSTID is set for each), which is slow; staged is faster"));
  if (shares_gpu(gpus, rank)) set_host_id(set_variable, hosts[rank].name, rank);
  const bool one_host = std::all_of(
      hosts.begin(), hosts.end(), [&](const RankHost& host) { return host.name == hosts[0].name; });
  if (one_host && std::getenv("NCCL_SOCKET_IFNAME") == nullptr)
    set(set_variable, "NCCL_SOCKET_IFNAME", "lo");
}

class NcclCommunicator : public DeviceCommunicator {
 public:
  NcclCommunicator(Communicator& control, double seconds, const SetVariable& set_variable)
      : DeviceCommunicator(control),
        nccl_(nccl()),
        limit_(seconds),
        exceptions_(std::uncaught_exceptions()) {
    allow_shared_gpus(control, set_variable);
    NcclId id{};
    if (rank() == 0) require(nccl_.get_unique_id(&id), "making an id");
    control.broadcast(Context{}, {&id, sizeof(id)}, 0);
    NcclComm comm = nullptr;
    require(nccl_.comm_init_rank(&comm, size(), id, rank()), "connecting the ranks");
    comm_ = comm;
    watch_ = start_thread("watching NCCL", [this] { watch(); });
  }

  ~NcclCommunicator() override {
    const bool is_failing = std::uncaught_exceptions() > exceptions_;
    try {
      if (!is_failing) last_.synchronize();
    } catch (...) {
      log_caught("waiting for NCCL");
    }
    {
      std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    ending_.notify_all();
    watch_.join();
    const NcclComm comm = comm_.exchange(nullptr);
    if (comm == nullptr) return;
    if (is_failing || has_failed())
      nccl_.comm_abort(comm);
    else
      nccl_.comm_destroy(comm);
  }

  const char* transport() const override { return "nccl"; }

 protected:
  void exchange_on_gpu(const Context& context, std::span<const Piece> send,
                       std::span<const Piece> receive) override {
    check();
    const auto own = static_cast<size_t>(rank());
    if (send[own].bytes > 0)
      copy_async(context, receive[own].data, send[own].data, send[own].bytes);
    const auto is_empty = [&](const Piece& piece) {
      return piece.bytes == 0 || &piece == &send[own] || &piece == &receive[own];
    };
    if (std::all_of(send.begin(), send.end(), is_empty) &&
        std::all_of(receive.begin(), receive.end(), is_empty))
      return;
    NcclResult result = kNcclSuccess;
    {
      std::lock_guard lock(calls_);
      result = enqueue(context, send, receive);
    }
    require(result, "exchanging memory");
    last_.record(context.stream);
    ++exchanges_;
  }

 private:
  NcclResult enqueue(const Context& context, std::span<const Piece> send,
                     std::span<const Piece> receive) {
    const NcclComm comm = comm_;
    if (comm == nullptr) return kNcclAborted;
    NcclResult result = nccl_.group_start();
    if (result != kNcclSuccess) return result;
    for (int step = 1; step < size(); ++step) {
      const int to = (rank() + step) % size(), from = (rank() + size() - step) % size();
      const Piece& sent = send[static_cast<size_t>(to)];
      const Piece& received = receive[static_cast<size_t>(from)];
      if (result == kNcclSuccess && sent.bytes > 0)
        result = nccl_.send(sent.data, sent.bytes, kNcclBytes, to, comm, context.stream);
      if (result == kNcclSuccess && received.bytes > 0)
        result = nccl_.recv(received.data, received.bytes, kNcclBytes, from, comm, context.stream);
    }
    const NcclResult ended = nccl_.group_end();
    return result == kNcclSuccess ? ended : result;
  }

  // Throws the failure of a rank where there is one, else what NCCL says.
  void require(NcclResult result, const char* doing) {
    if (result == kNcclSuccess) return;
    const std::string problem = cat("NCCL failed while ", doing, ": ", text_of(result));
    for (const auto until = Clock::now() + kVerdictTime; Clock::now() < until;
         std::this_thread::sleep_for(std::chrono::milliseconds(10)))
      check();
    throw Error(ErrorCode::kUnavailable, problem);
  }

  std::string text_of(NcclResult result) const {
    if (result == kNcclAborted) return "it was aborted";
    std::string text = nccl_.get_error_string(result);
    const char* details = nccl_.get_last_error ? nccl_.get_last_error(nullptr) : nullptr;
    if (details != nullptr && *details != 0) text += cat(": ", details);
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }

  bool has_failed() const {
    try {
      check();
      return false;
    } catch (const Error&) {
      return true;
    }
  }

  void watch() noexcept {
    try {
      Watched seen;
      std::unique_lock lock(mutex_);
      while (!ending_.wait_for(lock, kLookInterval, [&] { return is_ending_; })) {
        if (has_failed()) return abort();
        look(seen);
      }
    } catch (...) {
      const Error error = caught_error();
      fail(error.what());
      abort();
    }
  }

  struct Watched {
    uint64_t exchanges = 0;
    Clock::time_point progress = Clock::now(), no_error = Clock::now();
  };

  // Reports what no rank has reported yet.
  void look(Watched& seen) {
    const auto now = Clock::now();
    const uint64_t exchanges = exchanges_;
    if (exchanges != seen.exchanges || last_.is_reached()) seen.progress = now;
    seen.exchanges = exchanges;
    if (now - seen.progress > limit_)
      fail(cat("timed out after ", limit_.count(), " s in exchange ", exchanges,
               " of NCCL; all ranks must call the same collectives"));
    NcclResult error = kNcclSuccess;
    if (nccl_.comm_get_async_error(comm_, &error) != kNcclSuccess || error == kNcclInProgress ||
        error == kNcclSuccess)
      seen.no_error = now;
    if (now - seen.no_error > kVerdictTime) fail(cat("NCCL failed: ", text_of(error)));
  }

  void abort() noexcept {
    const std::unique_lock lock(calls_, kCallTime);
    if (const NcclComm comm = comm_.exchange(nullptr)) nccl_.comm_abort(comm);
  }

  static constexpr NcclResult kNcclAborted = -1;

  const Nccl& nccl_;
  const std::chrono::duration<double> limit_;
  const int exceptions_;
  std::timed_mutex calls_;        // held during calls that use comm_
  std::atomic<NcclComm> comm_{};  // null after it was aborted
  std::atomic<uint64_t> exchanges_{0};
  Event last_;  // the last exchange

  std::mutex mutex_;
  std::condition_variable ending_;
  bool is_ending_ = false;
  std::thread watch_;
};

}  // namespace

std::unique_ptr<Communicator> connect_by_nccl(Communicator& control, double collective_seconds,
                                              const SetVariable& set_variable) {
  return std::make_unique<NcclCommunicator>(control, collective_seconds, set_variable);
}

}  // namespace emblem::cuda
