// comm/watched.h - what communicators between processes share: their place and the watch over all.
#pragma once

#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/tcp/join.h"
#include "comm/watch.h"
#include "core/system/caught_error.h"

namespace emblem {

class WatchedCommunicator : public Communicator {
 public:
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hosts_.size()); }
  const std::vector<RankHost>& hosts() const override { return hosts_; }
  void check() const override { watch_.check(); }

  void fail(const std::string& reason) noexcept override {
    try {
      watch_.fail(rank_, reason);
    } catch (...) {
      log_caught("reporting the failure of a rank");
    }
  }

 protected:
  WatchedCommunicator(Membership& membership, const WatchSettings& watch)
      : rank_(membership.rank),
        hosts_(membership.hosts),
        exceptions_(std::uncaught_exceptions()),
        watch_(rank_, hosts_, std::move(membership.control), watch) {}

  // Begins an exchange: the piece of this rank to itself.
  void copy_own(const Context& context, std::span<const Piece> send,
                std::span<const Piece> receive) {
    if (context.device != Device::kCpu)
      throw Error(ErrorCode::kUnsupported,
                  cat("ranks connected by ", transport(), " exchange host memory only"));
    watch_.check();
    const auto own = static_cast<size_t>(rank_);
    if (send[own].bytes > 0) std::memcpy(receive[own].data, send[own].data, send[own].bytes);
  }

  // For destructors. Waits a few seconds for the others, or, while an exception ends this rank,
  // tells them so.
  void leave() {
    if (std::uncaught_exceptions() > exceptions_) watch_.fail(rank_, "ended by an error");
    watch_.leave();
  }

  const int rank_;
  const std::vector<RankHost> hosts_;

 private:
  const int exceptions_;

 protected:
  Watch watch_;
};

}  // namespace emblem
