// launch/signal_pipe.h - signals as something that poll() can wait for.
#pragma once

#include <vector>

namespace emblem {

// Takes over SIGINT, SIGTERM, SIGHUP (unless that is ignored, as under nohup), SIGCHLD and SIGPIPE
// (which then only makes writes fail) for its lifetime. One at a time.
class SignalPipe {
 public:
  SignalPipe();
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  int descriptor() const;  // readable when a signal has arrived
  // The requests to stop (SIGINT, SIGTERM, SIGHUP) that have arrived; SIGCHLD is not among them.
  std::vector<int> take();
};

}  // namespace emblem
