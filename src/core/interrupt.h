// core/interrupt.h - Ctrl-C as a request: the first one asks a loop to stop at a good moment, the
// second one ends the process at once with status 130.
#pragma once

namespace emblem {

// Takes over SIGINT and SIGTERM for its lifetime, then gives them back and forgets the request. One
// at a time.
class InterruptHandler {
 public:
  InterruptHandler();
  ~InterruptHandler();
  InterruptHandler(const InterruptHandler&) = delete;
  InterruptHandler& operator=(const InterruptHandler&) = delete;
};

// Whether somebody asked to stop since the handler was set up.
bool interrupted();

}  // namespace emblem
