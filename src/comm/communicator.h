// comm/communicator.h - ranks that exchange bytes. A communicator moves bytes and adds nothing up:
// sums are computed by emblem in a fixed order (comm/sum_all.h), so results do not depend on the
// transport.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/device/context.h"
#include "emblem/error.h"

namespace emblem {

// Memory that is sent to, or received from, one rank. May be empty.
struct Piece {
  void* data = nullptr;
  size_t bytes = 0;
};

// Where a rank runs.
struct RankHost {
  std::string name;    // name of its host
  int local_rank = 0;  // its number among the ranks of that host

  bool operator==(const RankHost&) const = default;
};

// Ranks whose hosts have these names.
std::vector<RankHost> rank_hosts(std::span<const std::string> names);

// The rank that ended the job: it failed, was killed, left early, or sent no heartbeat. Every
// rank throws the same one. The message begins with "rank 3 (host b): ".
class RankError : public Error {
 public:
  RankError(int rank, const std::string& message)
      : Error(ErrorCode::kUnavailable, message), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// An error that every rank finds at the same point of its work and throws with the same message: no
// rank needs to be told of it.
class CommonError : public Error {
 public:
  using Error::Error;
};

// Ranks 0 to size() - 1. Every rank calls the same collective functions in the same order. One
// thread uses it; fail() and check() may be called from any thread.
//
// Pieces are memory of the context's device. With a CPU context a call returns when it is done;
// with a CUDA context it is ordered with the stream and does not wait. A transport that cannot
// reach the device's memory throws kUnsupported.
//
// Every collective throws RankError when a rank has failed, and Error (kUnavailable) when it takes
// longer than the transport's time limit. After an error only fail() and the destructor may be
// called.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::vector<RankHost>& hosts() const = 0;  // by rank
  virtual const char* transport() const = 0;               // "threads", "tcp", "mpi"

  // All to all with unequal sizes: send[r] goes to rank r, receive[r] comes from rank r and has the
  // size that r sends. `send` is not changed; pieces of `send` and `receive` do not overlap.
  void exchange(const Context& context, std::span<const Piece> send,
                std::span<const Piece> receive);

  // all[r * mine.bytes ...] is what rank r has in `mine`. All sizes are equal.
  void gather_all(const Context& context, Piece mine, Piece all);

  // `piece` of rank `from` is copied to all others. All sizes are equal.
  void broadcast(const Context& context, Piece piece, int from);

  // Returns when all ranks have called it.
  void barrier();

  // Whether kernels of every rank can reach the memory of all others: threads that share a GPU.
  // Collective, and equal on all ranks.
  virtual bool can_use_peer_memory(const Context&) { return false; }

  // Where they can, instead of an exchange: own[r] is memory of this rank that rank r may use.
  // `use` gets the memory of all ranks that this one may use, by rank, and enqueues on the
  // context's stream what reads or writes it. That waits for what the owners enqueued before, and
  // what they enqueue afterwards waits for it.
  using UsePeerMemory = std::function<void(std::span<const Piece> peers)>;
  virtual void use_peer_memory(const Context& context, std::span<const Piece> own,
                               const UsePeerMemory& use);

  // Tells all other ranks that this one ends, and why, in one line without a rank's name. Their
  // collectives throw. For the handler of an error that ends this rank. Does not throw.
  virtual void fail(const std::string& reason) noexcept = 0;

  // Throws RankError when a rank has failed. For long work between collectives.
  virtual void check() const = 0;

 protected:
  // exchange() with checked arguments. Both spans have size() pieces; own pieces have equal sizes.
  virtual void do_exchange(const Context& context, std::span<const Piece> send,
                           std::span<const Piece> receive) = 0;
};

// "rank 3 (host b)"
std::string name_of_rank(int rank, const std::string& host);

}  // namespace emblem
