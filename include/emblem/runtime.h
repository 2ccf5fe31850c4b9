// emblem/runtime.h - what a process has once: the log, the libraries of remote stores.
//
// A program makes one before it uses anything else of Emblem, and ends it after everything else has
// ended. Emblem installs no signal handlers, changes no environment and ends no process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "emblem/api.h"

namespace emblem {
EMBLEM_PUBLIC {
  enum class LogLevel { kDebug, kInfo, kWarning, kError };

  struct RuntimeOptions {
    // Gets the lines of the log, without a time. Called on any thread, by several at once; must not
    // throw. Empty: they are written to stderr.
    std::function<void(LogLevel level, const std::string& line)> log;
    LogLevel lowest = LogLevel::kInfo;  // lines below it are not made

    // The program `emblem`, which reads ORC files in a process of its own, because a damaged file
    // can end it. Empty: ORC files are an error.
    std::string program;
  };

  // Thread-safe.
  class EMBLEM_API Runtime {
   public:
    // Throws kInvalidArgument while there is another one. After it has ended another can be made.
    explicit Runtime(const RuntimeOptions& options = {});
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    // Ends the library of S3 for good: a process that has read s3:// calls it before it returns
    // from main(), after its Runtime has ended. Does nothing where s3:// was not used.
    static void finalize_stores();

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

}  // namespace api
}  // namespace emblem
