#include "data/format/crash_notice.h"

#include <signal.h>
#include <unistd.h>

#include <mutex>

#include "emblem/error.h"

namespace emblem {
namespace {

// Signal handlers can reach nothing but globals.
thread_local const std::string* current = nullptr;

// Only what may be called in a handler.
void on_fault(int signal) {
  if (current != nullptr) {
    (void)!::write(STDERR_FILENO, current->data(), current->size());
    ::_exit(1);
  }
  ::signal(signal, SIG_DFL);  // the instruction faults again
}

void install() {
  struct sigaction action {};
  action.sa_handler = on_fault;
  for (const int signal : {SIGSEGV, SIGBUS}) ::sigaction(signal, &action, nullptr);
}

}  // namespace

CrashNotice::CrashNotice(const std::string& line) : line_(cat("emblem: ", line, "\n")) {
  static std::once_flag once;
  std::call_once(once, install);
  current = &line_;
}

CrashNotice::~CrashNotice() { current = nullptr; }

}  // namespace emblem
