#include "bench/comm/floor.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "comm/tcp/socket.h"
#include "core/memory/buffer.h"
#include "core/system/tcp_connect.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(60);

class CopyFloor : public CommFloor {
 public:
  CopyFloor(const Context& context, const Communicator& ranks, size_t most_bytes)
      : context_(context),
        ranks_(ranks),
        from_(Buffer<char>::zeros(context, static_cast<int64_t>(most_bytes))),
        to_(Buffer<char>::zeros(context, static_cast<int64_t>(most_bytes))) {}
  void run(size_t bytes) override {
    detail::copy(context_, to_.data(), from_.data(), bytes);
    asm volatile("" ::"r"(to_.data()) : "memory");
  }
  void pass(size_t bytes) override {
    if (source_ != ranks_.rank()) run(bytes);
    source_ = (source_ + 1) % ranks_.size();
  }
  const char* name() const override { return "memory copy"; }

 private:
  const Context& context_;
  const Communicator& ranks_;
  int source_ = 0;
  Buffer<char> from_, to_;
};

// Sends to the next rank and receives from the one before it.
class LoopbackFloor : public CommFloor {
 public:
  LoopbackFloor(Communicator& ranks, size_t most_bytes)
      : ranks_(ranks), sent_(most_bytes, 1), received_(most_bytes), next_(-1), previous_(-1) {
    const Deadline deadline = Clock::now() + kPatience;
    FileDescriptor listener = listen_on(resolve_host("127.0.0.1", 0).front(), 4);
    uint16_t port = port_of(local_address(listener.get()));
    std::vector<uint16_t> ports(static_cast<size_t>(ranks.size()));
    ranks.gather_all(Context{}, {&port, sizeof(port)}, {ports.data(), ports.size() * sizeof(port)});
    const auto after = static_cast<size_t>((ranks.rank() + 1) % ranks.size());
    next_ = FileDescriptor(connect_first(resolve_host("127.0.0.1", ports[after]), deadline));
    tune_connection(next_.get());
    while (previous_.get() < 0 && Clock::now() < deadline) {
      pollfd waiting{listener.get(), POLLIN, 0};
      poll(&waiting, 1, poll_timeout(deadline));
      previous_ = accept_connection(listener.get());
    }
    if (previous_.get() < 0) throw Error(ErrorCode::kUnavailable, "no loopback connection");
  }

  void run(size_t bytes) override { move(bytes, bytes); }
  void pass(size_t bytes) override {
    const int size = ranks_.size(), before = (ranks_.rank() + size - 1) % size;
    if (source_ == ranks_.rank()) move(bytes, 0);
    if (source_ == before) move(0, bytes);
    source_ = (source_ + 1) % size;
  }
  const char* name() const override { return "loopback"; }

 private:
  void move(size_t to_send, size_t to_receive) {
    size_t sent = 0, received = 0;
    const Deadline deadline = Clock::now() + kPatience;
    for (;;) {
      if (sent < to_send)
        advance(sent, ::send(next_.get(), sent_.data() + sent, to_send - sent,
                             MSG_NOSIGNAL | MSG_DONTWAIT));
      if (received < to_receive)
        advance(received, ::recv(previous_.get(), received_.data() + received,
                                 to_receive - received, MSG_DONTWAIT));
      if (sent == to_send && received == to_receive) return;
      pollfd waiting[] = {
          {next_.get(), static_cast<short>(sent < to_send ? POLLOUT : 0), 0},
          {previous_.get(), static_cast<short>(received < to_receive ? POLLIN : 0), 0}};
      if (poll(waiting, 2, poll_timeout(deadline)) == 0)
        throw Error(ErrorCode::kUnavailable, "a loopback connection timed out");
    }
  }

  static void advance(size_t& done, ssize_t result) {
    if (result > 0) done += static_cast<size_t>(result);
    if (result == 0 || (result < 0 && errno != EAGAIN && errno != EINTR))
      throw Error(ErrorCode::kUnavailable, "loopback connection lost");
  }

  const Communicator& ranks_;
  int source_ = 0;
  std::vector<char> sent_, received_;
  FileDescriptor next_, previous_;
};

}  // namespace

std::unique_ptr<CommFloor> make_floor(const Context& context, Communicator& ranks,
                                      size_t most_bytes) {
  const std::vector<RankHost>& hosts = ranks.hosts();
  if (ranks.size() == 1) return nullptr;
  const bool one_host = std::all_of(hosts.begin(), hosts.end(),
                                    [&](const RankHost& one) { return one.name == hosts[0].name; });
  if (!one_host) return nullptr;
  if (ranks.transport() == std::string("tcp"))
    return std::make_unique<LoopbackFloor>(ranks, most_bytes);
  return std::make_unique<CopyFloor>(context, ranks, most_bytes);
}

}  // namespace emblem
