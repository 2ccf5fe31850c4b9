// launch/rank_process.h - a rank while it runs: a child of this process, or of ssh on another host.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "core/files/file_descriptor.h"
#include "core/system/subprocess.h"
#include "launch/guard.h"
#include "launch/hosts.h"
#include "launch/rank_command.h"
#include "launch/rank_output.h"

namespace emblem {

struct RankEnd : ProcessEnd {
  bool was_told = false;  // the launcher had asked it to end
};

// How other hosts are reached: program and options, without the host.
struct RemoteShell {
  std::vector<std::string> ssh;
  std::string emblem;  // the program there
};

class RankProcess {
 public:
  // Starts it. On another host `remote.emblem launch --supervise` gets the command on stdin and
  // ends the rank when the connection ends.
  RankProcess(const RankSlot& slot, const RankCommand& command, const RemoteShell& remote,
              std::unique_ptr<RankOutput> output, Guard& guard);
  ~RankProcess();  // kills it
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  const RankSlot& slot() const { return slot_; }
  const RankOutput& output() const { return *output_; }
  bool is_running() const { return !end_; }
  const RankEnd& end() const { return *end_; }
  // Whether ssh failed before the rank was started.
  bool is_unreachable() const;

  // Passes on what the rank prints and notices its end; true: it has ended with this call.
  bool update();
  // SIGKILL ends the connection as well.
  void send_signal(int signal);
  // The connection alone: for a host that does not answer.
  void abandon();
  // Bytes for another host that its connection has not taken yet.
  bool has_bytes_to_send() const { return !to_send_.empty(); }
  int control_descriptor() const { return control_.get(); }

 private:
  bool is_remote() const { return slot_.host != kThisMachine; }
  void send_pending();

  RankSlot slot_;
  std::unique_ptr<RankOutput> output_;
  Guard& guard_;
  std::optional<ChildProcess> child_;
  FileDescriptor control_{-1};  // stdin of ssh
  std::string to_send_;
  bool was_told_ = false;
  std::optional<RankEnd> end_;
};

}  // namespace emblem
