#include "launch/interrupt_handler.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "core/system/interrupt.h"

namespace emblem {
namespace {

constexpr int kHandledSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

// Signal handlers can reach nothing but globals.
std::atomic<const char*> first_notice{nullptr};
static_assert(std::atomic<const char*>::is_always_lock_free,
              "handlers may use lock-free atomics only");
struct sigaction previous_actions[std::size(kHandledSignals)];

// Only what may be called in a handler.
void print_notice(const char* notice) {
  constexpr const char kClearLine[] = "\r\033[K";  // clears the line of a progress bar
  if (isatty(STDERR_FILENO) == 1) (void)!write(STDERR_FILENO, kClearLine, sizeof(kClearLine) - 1);
  (void)!write(STDERR_FILENO, notice, strlen(notice));
  (void)!write(STDERR_FILENO, "\n", 1);
}

void on_request(int signal) {
  if (request_interrupt(signal) != 0) _exit(interrupted_status());
  const int saved = errno;
  if (const char* notice = first_notice) print_notice(notice);
  errno = saved;
}

void ignore_broken_pipe(int) {}  // not SIG_IGN, which programs started from here would inherit

bool is_ignored_action(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

InterruptHandler::InterruptHandler(const char* notice) {
  clear_interrupt();
  first_notice = notice;
  for (size_t i = 0; i < std::size(kHandledSignals); ++i) {
    struct sigaction action {};
    action.sa_handler = kHandledSignals[i] == SIGPIPE ? ignore_broken_pipe : on_request;
    action.sa_flags = SA_RESTART;  // a checkpoint being written is not disturbed
    sigaction(kHandledSignals[i], nullptr, &previous_actions[i]);
    const bool stays_ignored =
        kHandledSignals[i] != SIGINT && is_ignored_action(previous_actions[i]);
    if (!stays_ignored) sigaction(kHandledSignals[i], &action, nullptr);
  }
}

InterruptHandler::~InterruptHandler() {
  for (size_t i = 0; i < std::size(kHandledSignals); ++i)
    sigaction(kHandledSignals[i], &previous_actions[i], nullptr);
  clear_interrupt();
  first_notice = nullptr;
}

}  // namespace emblem
