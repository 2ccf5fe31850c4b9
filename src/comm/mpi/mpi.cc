#include "comm/mpi/mpi.h"

#include <cstdlib>
#include <thread>

#include "comm/mpi_module/mpi_module.h"
#include "comm/tcp/host_name.h"
#include "comm/tcp/job_secret.h"
#include "comm/watched.h"
#include "core/system/module.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kAdvice[] =
    "it is built where CMake finds an MPI library (libopenmpi-dev or libmpich-dev); use "
    "--transport tcp, or set EMBLEM_MPI_MODULE to its path";

const EmblemMpi& load_mpi() {
  const std::string path = find_mpi_module();
  const DynamicLibrary library =
      path.empty() ? load_module("mpi", kAdvice) : DynamicLibrary(path, kAdvice);
  decltype(emblem_mpi_module)* module = nullptr;
  library.find("emblem_mpi_module", module);
  const EmblemMpi& mpi = *module();
  if (mpi.version != kMpiModuleVersion)
    throw Error(ErrorCode::kUnavailable,
                cat(path, " has interface ", mpi.version, ", this program needs ",
                    kMpiModuleVersion, "; rebuild both"));
  return mpi;
}

// MPI itself, without a watch.
class MpiExchange {
 public:
  MpiExchange(const EmblemMpi& mpi, double seconds) : mpi_(mpi), seconds_(seconds) {}

  // Calls `look` now and then while it waits.
  template <class Look>
  void run(std::span<const Piece> send, std::span<const Piece> receive, const Look& look) {
    static_assert(sizeof(Piece) == sizeof(EmblemMpiPiece));
    const Deadline deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                 std::chrono::duration<double>(seconds_));
    require(mpi_.start(reinterpret_cast<const EmblemMpiPiece*>(send.data()),
                       reinterpret_cast<const EmblemMpiPiece*>(receive.data()), exchanges_));
    for (int round = 1, done = 0;; ++round) {
      require(mpi_.test(&done));
      if (done != 0) break;
      if (round % 64 == 0) {
        look();
        if (Clock::now() >= deadline)
          throw Error(ErrorCode::kUnavailable,
                      cat("timed out after ", seconds_, " s in exchange ", exchanges_,
                          " of MPI; all ranks must call the same collectives"));
      }
      std::this_thread::yield();
    }
    ++exchanges_;
  }

 private:
  void require(const char* error) const {
    if (error != nullptr)
      throw Error(ErrorCode::kUnavailable, cat("MPI, exchange ", exchanges_, ": ", error));
  }

  const EmblemMpi& mpi_;
  const double seconds_;
  uint64_t exchanges_ = 0;
};

struct RendezvousAddress {
  char host[256] = {};
  uint16_t port = 0;
  char secret[65] = {};
};

// Sends the address from rank 0 to all.
void share(MpiExchange& exchange, int rank, int size, RendezvousAddress& address) {
  std::vector<Piece> send(static_cast<size_t>(size)), receive(send);
  const Piece piece{&address, sizeof(address)};
  if (rank == 0)
    send.assign(send.size(), piece);
  else
    receive[0] = piece;
  exchange.run(send, receive, [] {});
}

class MpiCommunicator : public WatchedCommunicator {
 public:
  MpiCommunicator(const EmblemMpi& mpi, Membership membership, const MpiExchange& exchange,
                  const WatchSettings& watch)
      : WatchedCommunicator(membership, watch), mpi_(mpi), exchange_(exchange) {}

  ~MpiCommunicator() override {
    try {
      leave();
      watch_.check();
      mpi_.close();
    } catch (const RankError&) {
      // MPI cannot be finalized without all ranks.
    } catch (...) {
      log_caught("leaving the job");
    }
  }

  const char* transport() const override { return "mpi"; }

 protected:
  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) override {
    copy_own(context, send, receive);
    exchange_.run(send, receive, [this] { watch_.check(); });
  }

 private:
  const EmblemMpi& mpi_;
  MpiExchange exchange_;
};

}  // namespace

std::string find_mpi_module() {
  const char* given = std::getenv("EMBLEM_MPI_MODULE");
  return given != nullptr ? given : find_module("mpi");
}

std::unique_ptr<Communicator> connect_by_mpi(TcpSettings settings) {
  const EmblemMpi& mpi = load_mpi();
  int rank = 0, size = 0;
  if (const char* error = mpi.open(&rank, &size))
    throw Error(ErrorCode::kUnavailable, cat("cannot initialize MPI: ", error));
  JoinSettings& join = settings.join;
  if (rank != join.rank || size != join.size)
    throw Error(ErrorCode::kUnavailable,
                cat("the launcher says rank ", join.rank, " of ", join.size, ", MPI says rank ",
                    rank, " of ", size,
                    ": libemblem_mpi.so was built for another MPI than that of "
                    "mpirun (it uses ",
                    mpi.version_text(), ")"));

  MpiExchange exchange(mpi, settings.collective_seconds);
  RendezvousAddress address;
  join.transport = "mpi";
  join.port = 0;
  if (rank == 0) {
    if (join.address.empty()) join.address = host_name();
    join.address.copy(address.host, sizeof(address.host) - 1);
    join.secret =
        make_job_secret();  // MPI's own connections are as safe as its launcher makes them
    join.secret.copy(address.secret, sizeof(address.secret) - 1);
    join.on_listening = [&](uint16_t port) {
      address.port = port;
      share(exchange, rank, size, address);
    };
  } else {
    share(exchange, rank, size, address);
    join.address = address.host;
    join.port = address.port;
    join.secret = address.secret;
  }
  return std::make_unique<MpiCommunicator>(mpi, join_job(join), exchange, settings.watch);
}

}  // namespace emblem
