#include "core/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace emblem {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
constexpr int kStatusOfSignal = 128;  // added to its number, as shells do

// Signal handlers can reach nothing but globals.
std::atomic<int> first_signal{0};
std::atomic<const char*> first_notice{nullptr};
static_assert(std::atomic<int>::is_always_lock_free, "handlers may use lock-free atomics only");
struct sigaction previous[std::size(kSignals)];

// Only what may be called in a handler.
void print_notice(const char* notice) {
  constexpr const char kClearLine[] = "\r\033[K";  // of a progress bar
  if (isatty(STDERR_FILENO) == 1) (void)!write(STDERR_FILENO, kClearLine, sizeof(kClearLine) - 1);
  (void)!write(STDERR_FILENO, notice, strlen(notice));
  (void)!write(STDERR_FILENO, "\n", 1);
}

void on_signal(int signal) {
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) _exit(kStatusOfSignal + none);
  const int saved = errno;
  if (const char* notice = first_notice) print_notice(notice);
  errno = saved;
}

void on_broken_pipe(int) {}  // not SIG_IGN, which programs started from here would inherit

bool is_ignored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

InterruptHandler::InterruptHandler(const char* notice) {
  first_signal = 0;
  first_notice = notice;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGPIPE ? on_broken_pipe : on_signal;
    action.sa_flags = SA_RESTART;  // a checkpoint being written is not disturbed
    sigaction(kSignals[i], nullptr, &previous[i]);
    const bool stays_ignored = kSignals[i] != SIGINT && is_ignored(previous[i]);
    if (!stays_ignored) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptHandler::~InterruptHandler() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &previous[i], nullptr);
  first_signal = 0;
  first_notice = nullptr;
}

bool interrupted() { return first_signal != 0; }

int interrupted_status() {
  const int signal = first_signal;
  return signal == 0 ? 0 : kStatusOfSignal + signal;
}

}  // namespace emblem
