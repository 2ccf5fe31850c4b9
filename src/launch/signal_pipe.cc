#include "launch/signal_pipe.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "core/system/pipe.h"

namespace emblem {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE};

// Signal handlers can reach nothing but globals.
std::atomic<int> reading_end{-1}, writing_end{-1};
struct sigaction previous[std::size(kSignals)];

void on_signal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  (void)!write(writing_end, &byte, 1);
  errno = saved;
}

void on_broken_pipe(int) {}  // not SIG_IGN, which programs started from here would inherit

}  // namespace

SignalPipe::SignalPipe() {
  Pipe pipe = make_pipe(O_NONBLOCK);
  reading_end = pipe.reader.release();
  writing_end = pipe.writer.release();
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGPIPE ? on_broken_pipe : on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(kSignals[i], nullptr, &previous[i]);
    const bool stays_ignored = kSignals[i] == SIGHUP && previous[i].sa_handler == SIG_IGN;
    if (!stays_ignored) sigaction(kSignals[i], &action, nullptr);
  }
}

SignalPipe::~SignalPipe() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &previous[i], nullptr);
  ::close(writing_end.exchange(-1));
  ::close(reading_end.exchange(-1));
}

int SignalPipe::descriptor() const { return reading_end; }

std::vector<int> SignalPipe::take() {
  std::vector<int> requests;
  unsigned char bytes[64];
  ssize_t got = 0;
  while ((got = ::read(reading_end, bytes, sizeof(bytes))) > 0)
    for (ssize_t i = 0; i < got; ++i)
      if (bytes[i] != SIGCHLD) requests.push_back(bytes[i]);
  return requests;
}

}  // namespace emblem
