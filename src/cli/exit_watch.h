// cli/exit_watch.h - the end of an interrupted process whose store does not answer: requests under
// way cannot be cancelled.
#pragma once

#include <memory>
#include <string>

#include "data/source/storage.h"

namespace emblem {

// Thread-safe.
class ExitWatch {
 public:
  // `storage` may be null: then nothing is ever waited for.
  ExitWatch(const Storage& storage, double seconds);

  // From now on, when the process was interrupted (core/system/interrupt.h) and has waited for the
  // store for `seconds` without any answer, it ends with the status of the signal, after `notice`
  // was logged. It does so until its end: destructors and libraries wait for requests, too.
  void begin(const std::string& notice);
  // Until the next begin() it does not: there is something to save.
  void hold();

 private:
  struct State;
  static void watch(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // outlives this, with its thread
};

}  // namespace emblem
