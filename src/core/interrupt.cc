#include "core/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace emblem {
namespace {

constexpr int kStatusInterrupted = 130;  // what shells report for Ctrl-C

// Signal handlers can reach nothing but globals.
std::atomic<bool> asked_to_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "handlers may use lock-free atomics only");
struct sigaction previous_interrupt, previous_terminate;

void on_signal(int) {
  if (asked_to_stop.exchange(true)) _exit(kStatusInterrupted);
}

}  // namespace

InterruptHandler::InterruptHandler() {
  asked_to_stop = false;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // a checkpoint being written is not disturbed
  sigaction(SIGINT, &action, &previous_interrupt);
  sigaction(SIGTERM, &action, &previous_terminate);
}

InterruptHandler::~InterruptHandler() {
  sigaction(SIGINT, &previous_interrupt, nullptr);
  sigaction(SIGTERM, &previous_terminate, nullptr);
  asked_to_stop = false;
}

bool interrupted() { return asked_to_stop; }

}  // namespace emblem
