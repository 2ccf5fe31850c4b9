#include "comm/lone_rank.h"

#include "comm/tcp/host_name.h"
#include "core/memory/buffer.h"

namespace emblem {
namespace {

class LoneRank : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::vector<RankHost>& hosts() const override { return hosts_; }
  const char* transport() const override { return "none"; }
  void fail(const std::string&) noexcept override {}
  void check() const override {}

 protected:
  void do_exchange(const Context& context, std::span<const Piece> send,
                   std::span<const Piece> receive) override {
    if (send[0].data != receive[0].data && send[0].bytes > 0)
      detail::copy(context, receive[0].data, send[0].data, send[0].bytes);
  }

 private:
  const std::vector<RankHost> hosts_{{rank_host_name(), 0}};
};

}  // namespace

Communicator& lone_rank() {
  static LoneRank rank;
  return rank;
}

}  // namespace emblem
