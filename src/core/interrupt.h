// core/interrupt.h - signals as a request to stop: the first one asks a loop to end at a good
// moment, the second one ends the process at once.
#pragma once

namespace emblem {

// Takes over SIGINT, SIGTERM and SIGHUP (unless that is ignored, as under nohup) for its lifetime,
// then restores what they did before and forgets the request. Meanwhile a write into a closed pipe
// fails instead of killing the process (SIGPIPE): Ctrl-C also ends the programs that read its
// output, and there is still something to save. One at a time.
class InterruptHandler {
 public:
  InterruptHandler() : InterruptHandler(nullptr) {}
  // `notice` is one line for stderr at the first signal, which the user sees even while the loop is
  // busy. It must outlive the handler.
  explicit InterruptHandler(const char* notice);
  ~InterruptHandler();
  InterruptHandler(const InterruptHandler&) = delete;
  InterruptHandler& operator=(const InterruptHandler&) = delete;
};

// Whether a signal has asked to stop since the handler was set up.
bool interrupted();

// The exit status that shells expect after that signal: 130 for SIGINT, 143 for SIGTERM, 129 for
// SIGHUP; 0 when there was none. The second signal ends the process with it.
int interrupted_status();

}  // namespace emblem
