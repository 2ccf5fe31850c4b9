#include "comm/rank_group.h"

#include <algorithm>

namespace emblem {

RankGroup::RankGroup(Communicator& all, std::vector<int> members)
    : all_(all), members_(std::move(members)) {
  const auto own = std::find(members_.begin(), members_.end(), all.rank());
  EMBLEM_REQUIRE(own != members_.end(), "rank ", all.rank(), " is not in its group of ",
                 members_.size(), " ranks");
  rank_ = static_cast<int>(own - members_.begin());
  for (const int member : members_) hosts_.push_back(all.hosts()[static_cast<size_t>(member)]);
}

void RankGroup::do_exchange(const Context& context, std::span<const Piece> send,
                            std::span<const Piece> receive) {
  send_.assign(static_cast<size_t>(all_.size()), {});
  receive_.assign(send_.size(), {});
  for (size_t m = 0; m < members_.size(); ++m) {
    send_[static_cast<size_t>(members_[m])] = send[m];
    receive_[static_cast<size_t>(members_[m])] = receive[m];
  }
  all_.exchange(context, send_, receive_);
}

}  // namespace emblem
