// comm/forwarded_ranks.h - what communicators share that pass on to another one of the same ranks.
#pragma once

#include "comm/communicator.h"

namespace emblem {

// Exchanges are up to the class that derives from it; peer memory is not passed on.
class ForwardedRanks : public Communicator {
 public:
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const std::vector<RankHost>& hosts() const override { return inner_.hosts(); }
  const char* transport() const override { return inner_.transport(); }
  void fail(const std::string& reason) noexcept override { inner_.fail(reason); }
  void check() const override { inner_.check(); }

 protected:
  explicit ForwardedRanks(Communicator& inner) : inner_(inner) {}

  Communicator& inner_;  // outlives this
};

}  // namespace emblem
