#include "launch/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "comm/launcher.h"
#include "core/spawn.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int kSshFailed = 255;  // the exit status of ssh itself
constexpr int kStatusOfSignal = 128;

Spawn local_program(const RankSeat& seat, const RankCommand& command) {
  Spawn program;
  program.arguments = command.arguments;
  program.environment = command.environment;
  program.folder = command.folder;
  program.removed = variables_before_torchrun();
  add_cpu_share(seat.local_size, program.environment);
  return program;
}

Spawn remote_program(const RankSeat& seat, const RemoteShell& remote) {
  Spawn program;
  program.arguments = remote.ssh;
  program.arguments.push_back(seat.host);
  program.arguments.push_back(cat("exec ", shell_quoted(remote.emblem), " launch --supervise"));
  return program;
}

}  // namespace

std::string to_text(const RankEnd& end) {
  if (end.signal != 0)
    return cat("killed by signal ", end.signal, " (", strsignal(end.signal), ")");
  return cat("exit status ", end.exit_status);
}

RankProcess::RankProcess(const RankSeat& seat, const RankCommand& command,
                         const RemoteShell& remote, std::unique_ptr<RankOutput> output,
                         Guard& guard)
    : seat_(seat), output_(std::move(output)), guard_(guard) {
  Spawn program = is_remote() ? remote_program(seat, remote) : local_program(seat, command);
  const RankOutput::Ends ends = output_->open();
  program.output = ends.output.get();
  program.error_output = ends.error_output.get();
  FileDescriptor input(-1);
  if (is_remote()) {
    int control[2];
    if (pipe2(control, O_CLOEXEC) != 0)
      throw Error(ErrorCode::kUnavailable, cat("cannot create a pipe: ", std::strerror(errno)));
    input = FileDescriptor(control[0]);
    control_ = FileDescriptor(control[1]);
    fcntl(control[1], F_SETFL, O_NONBLOCK);
    program.input = input.get();
    to_send_ = encode(command);
  }
  child_ = spawn(program);
  guard_.watch(child_);
  send_pending();
}

RankProcess::~RankProcess() {
  if (end_ || child_ < 0) return;
  kill(-child_, SIGKILL);
  guard_.forget(child_);
  waitpid(child_, nullptr, 0);
}

bool RankProcess::is_unreachable() const {
  return is_remote() && end_ && end_->exit_status == kSshFailed && !end_->was_told &&
         !output_->has_connected();
}

void RankProcess::send_pending() {
  while (!to_send_.empty() && control_.get() >= 0) {
    const ssize_t sent = ::write(control_.get(), to_send_.data(), to_send_.size());
    if (sent >= 0)
      to_send_.erase(0, static_cast<size_t>(sent));
    else if (errno == EAGAIN)
      return;
    else if (errno != EINTR)
      to_send_.clear();  // the connection has ended
  }
}

bool RankProcess::update() {
  if (end_) return false;
  send_pending();
  output_->take_available();
  // First its group, then its process id is given back: the id may belong to another afterwards.
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != child_)
    return false;
  kill(-child_, SIGKILL);
  guard_.forget(child_);
  int status = 0;
  waitpid(child_, &status, 0);
  output_->finish();
  control_.close();
  end_.emplace();
  end_->was_told = was_told_;
  if (WIFSIGNALED(status)) {
    end_->signal = WTERMSIG(status);
  } else if (is_remote() && WEXITSTATUS(status) > kStatusOfSignal &&
             WEXITSTATUS(status) < kSshFailed) {
    end_->signal = WEXITSTATUS(status) - kStatusOfSignal;
  } else {
    end_->exit_status = WEXITSTATUS(status);
  }
  return true;
}

void RankProcess::send_signal(int signal) {
  if (end_) return;
  was_told_ = true;
  if (!is_remote() || !output_->has_connected()) {  // ssh itself may end before it has connected
    kill(-child_, signal);
    kill(-child_, SIGCONT);  // a stopped one would not notice
  }
  if (!is_remote()) return;
  to_send_ += cat("signal ", signal, "\n");
  send_pending();
}

void RankProcess::abandon() {
  if (end_) return;
  was_told_ = true;
  kill(-child_, SIGKILL);
}

}  // namespace emblem
