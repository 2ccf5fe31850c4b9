// comm/rank_group.h - some ranks of a communicator as a communicator of their own.
#pragma once

#include <vector>

#include "comm/communicator.h"

namespace emblem {

// Every rank of `all` is in one group and calls the collectives of its group when the others call
// those of theirs: one exchange of `all` for all groups.
class RankGroup : public Communicator {
 public:
  // `members` of `all`, in order, this rank among them. `all` outlives the group.
  RankGroup(Communicator& all, std::vector<int> members);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  const std::vector<RankHost>& hosts() const override { return hosts_; }
  const char* transport() const override { return all_.transport(); }
  void fail(const std::string& reason) noexcept override { all_.fail(reason); }
  void check() const override { all_.check(); }

 protected:
  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) override;

 private:
  Communicator& all_;
  std::vector<int> members_;
  std::vector<RankHost> hosts_;
  int rank_ = 0;
  std::vector<Piece> send_, receive_;  // pieces of all ranks
};

}  // namespace emblem
