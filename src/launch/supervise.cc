#include "launch/launch.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "core/system/subprocess.h"
#include "emblem/error.h"
#include "launch/guard.h"
#include "launch/rank_command.h"
#include "launch/rank_output.h"
#include "launch/rank_process.h"
#include "launch/signal_pipe.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGrace = std::chrono::seconds(5);  // between SIGTERM and SIGKILL

// Adds what stdin has; false: it has ended.
bool receive(std::string& received) {
  char bytes[16384];
  ssize_t got = 0;
  do got = ::read(STDIN_FILENO, bytes, sizeof(bytes));
  while (got < 0 && errno == EINTR);
  if (got > 0) received.append(bytes, static_cast<size_t>(got));
  return got > 0;
}

RankCommand receive_command(std::string& received) {
  while (true) {
    if (auto command = take_command(received)) return *command;
    if (!receive(received))
      throw Error(ErrorCode::kUnavailable,
                  "standard input ended before the command of the rank; this is run by emblem "
                  "launch");
  }
}

int local_size_of(const RankCommand& command) {
  for (const auto& [name, value] : command.environment)
    if (name == "LOCAL_WORLD_SIZE") return std::atoi(value.c_str());
  return 1;
}

Spawn program_of(RankCommand command) {
  Spawn program;
  add_cpu_share(local_size_of(command), command.environment);
  program.arguments = std::move(command.arguments);
  program.environment = std::move(command.environment);
  program.folder = std::move(command.folder);
  program.output = STDOUT_FILENO;
  program.error_output = STDERR_FILENO;
  return program;
}

class Supervisor {
 public:
  Supervisor(ChildProcess& child, std::string received)
      : child_(child), received_(std::move(received)) {}

  int run(SignalPipe& signals) {
    pass_on_signals();
    while (true) {
      if (child_.has_ended()) {
        const ProcessEnd end = child_.reap();
        return end.signal != 0 ? kStatusOfSignal + end.signal : end.exit_status;
      }
      if (kill_at_ && Clock::now() >= *kill_at_) child_.send_signal(SIGKILL);
      pollfd waiting[] = {{signals.descriptor(), POLLIN, 0},
                          {connected_ ? STDIN_FILENO : -1, POLLIN, 0}};
      poll(waiting, 2, kill_at_ ? 100 : -1);
      for (const int signal : signals.take()) stop(signal);
      if (waiting[1].revents != 0) read_requests();
    }
  }

 private:
  void pass_on(int signal) {
    child_.send_signal(signal);
    child_.send_signal(SIGCONT);
  }

  void stop(int signal) {
    pass_on(signal);
    if (!kill_at_) kill_at_ = Clock::now() + kGrace;
  }

  void read_requests() {
    if (!receive(received_)) {
      connected_ = false;
      stop(SIGTERM);
    }
    pass_on_signals();
  }

  void pass_on_signals() {
    lines_.add(received_, [&](std::string_view line, LineEnd) {
      const int signal = line.starts_with("signal ") ? std::atoi(line.data() + 7) : 0;
      if (signal > 0) pass_on(signal);
    });
    received_.clear();
  }

  ChildProcess& child_;
  std::string received_;
  LineBuffer lines_;
  bool connected_ = true;
  std::optional<Clock::time_point> kill_at_;
};

}  // namespace

int supervise() {
  std::string received;
  RankCommand command = receive_command(received);
  Guard guard;
  SignalPipe signals;
  std::fprintf(stderr, "%s\n", std::string(kStartedLine).c_str());
  std::fflush(stderr);
  ChildProcess rank(program_of(std::move(command)));
  guard.watch(rank.id());
  const int status = Supervisor(rank, std::move(received)).run(signals);
  guard.forget(rank.id());
  return status;
}

}  // namespace emblem
