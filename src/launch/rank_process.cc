#include "launch/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "comm/tcp/launcher.h"
#include "core/system/pipe.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int kSshFailed = 255;  // the exit status of ssh itself

Spawn local_program(const RankSlot& slot, const RankCommand& command) {
  Spawn program;
  program.arguments = command.arguments;
  program.environment = command.environment;
  program.folder = command.folder;
  program.removed = variables_before_torchrun();
  add_cpu_share(slot.local_size, program.environment);
  return program;
}

Spawn remote_program(const RankSlot& slot, const RemoteShell& remote) {
  Spawn program;
  program.arguments = remote.ssh;
  program.arguments.push_back(slot.host);
  program.arguments.push_back(cat("exec ", shell_quoted(remote.emblem), " launch --supervise"));
  return program;
}

}  // namespace

RankProcess::RankProcess(const RankSlot& slot, const RankCommand& command,
                         const RemoteShell& remote, std::unique_ptr<RankOutput> output,
                         Guard& guard)
    : slot_(slot), output_(std::move(output)), guard_(guard) {
  Spawn program = is_remote() ? remote_program(slot, remote) : local_program(slot, command);
  const RankOutput::Ends ends = output_->open();
  program.output = ends.output.get();
  program.error_output = ends.error_output.get();
  FileDescriptor input(-1);
  if (is_remote()) {
    Pipe control = make_pipe();
    input = std::move(control.reader);
    control_ = std::move(control.writer);
    fcntl(control_.get(), F_SETFL, O_NONBLOCK);
    program.input = input.get();
    to_send_ = encode(command);
  }
  child_.emplace(program);
  guard_.watch(child_->id());
  send_pending();
}

RankProcess::~RankProcess() {
  if (end_ || !child_) return;
  child_->send_signal(SIGKILL);
  guard_.forget(child_->id());
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
  if (!child_->has_ended()) return false;
  child_->send_signal(SIGKILL);
  guard_.forget(child_->id());
  end_ = RankEnd{child_->reap(), was_told_};
  output_->finish();
  control_.close();
  const int status = end_->exit_status;
  if (is_remote() && status > kStatusOfSignal && status < kSshFailed) {
    end_->signal = status - kStatusOfSignal;
    end_->exit_status = 0;
  }
  return true;
}

void RankProcess::send_signal(int signal) {
  if (end_) return;
  was_told_ = true;
  if (!is_remote() || !output_->has_connected()) {  // ssh itself may end before it has connected
    child_->send_signal(signal);
    child_->send_signal(SIGCONT);  // a stopped one would not notice
  }
  if (!is_remote()) return;
  to_send_ += cat("signal ", signal, "\n");
  send_pending();
}

void RankProcess::abandon() {
  if (end_) return;
  was_told_ = true;
  child_->send_signal(SIGKILL);
}

}  // namespace emblem
