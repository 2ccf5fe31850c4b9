// plan/timed_communicator.h - a communicator that adds up how long its exchanges took.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "plan/rank_timer.h"

namespace emblem {

class TimedCommunicator : public Communicator {
 public:
  explicit TimedCommunicator(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const std::vector<RankHost>& hosts() const override { return inner_.hosts(); }
  const char* transport() const override { return inner_.transport(); }
  void fail(const std::string& reason) noexcept override { inner_.fail(reason); }
  void check() const override { inner_.check(); }

  // Of each exchange since clear().
  const std::vector<double>& seconds() const { return seconds_; }
  void clear() { seconds_.clear(); }

 protected:
  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) override {
    context.synchronize();
    const double begin = seconds_now();
    inner_.exchange(context, send, receive);
    context.synchronize();
    seconds_.push_back(seconds_now() - begin);
  }

 private:
  Communicator& inner_;
  std::vector<double> seconds_;
};

}  // namespace emblem
