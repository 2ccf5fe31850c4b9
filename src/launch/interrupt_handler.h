// launch/interrupt_handler.h - signals as a request to stop (core/system/interrupt.h): the first
// one asks a loop to end at a good moment, the second one ends the process at once.
#pragma once

namespace emblem {

// Takes over SIGINT, SIGTERM and SIGHUP (unless that is ignored, as under nohup) for its lifetime,
// then restores what they did before and forgets the request. Meanwhile a write into a closed pipe
// fails instead of killing the process (SIGPIPE): Ctrl-C also ends the programs that read its
// output, and there is still something to save. For the program alone; one at a time.
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

}  // namespace emblem
