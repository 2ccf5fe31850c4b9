#include "cli/exit_watch.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "core/system/interrupt.h"
#include "core/system/log.h"
#include "core/system/seconds_since.h"
#include "core/threads/start_thread.h"
#include "data/source/remote_storage.h"
#include "data/source/retry.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr double kSlowestStoreRate = 4e6;  // bytes per second of an upload

}  // namespace

struct ExitWatch::State {
  State(std::shared_ptr<const StoreActivity> of, double grace)
      : store(std::move(of)), seconds(grace) {}

  const std::shared_ptr<const StoreActivity> store;
  const double seconds;
  std::atomic<bool> has_begun{false};
  std::mutex mutex;  // guards the notice
  std::string notice;
};

ExitWatch::ExitWatch(const Storage& storage, double seconds) {
  if (storage == nullptr) return;
  state_ = std::make_shared<State>(storage->activity(), seconds);
  start_thread("requests that are interrupted", [state = state_] { watch(state); }).detach();
}

void ExitWatch::begin(const std::string& notice) {
  if (state_ == nullptr) return;
  const std::lock_guard lock(state_->mutex);
  state_->notice = notice;
  state_->has_begun = true;
}

void ExitWatch::hold() {
  if (state_ != nullptr) state_->has_begun = false;
}

void ExitWatch::watch(const std::shared_ptr<State>& state) {
  using Clock = std::chrono::steady_clock;
  const StoreActivity& store = *state->store;
  auto since = Clock::now();
  int64_t answers = store.answers;
  int status = 0;
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (status == 0) status = interrupted_status();
    const int64_t now = store.answers;
    if (status == 0 || !state->has_begun || now != answers || store.waiting == 0) {
      answers = now;
      since = Clock::now();
      continue;
    }
    const double patience =
        state->seconds + static_cast<double>(store.under_way) / kSlowestStoreRate;
    if (seconds_since(since) < patience) continue;
    const std::lock_guard lock(state->mutex);
    if (!state->has_begun) continue;
    log_error(cat("the store has not answered for ", std::lround(patience), " s; ", state->notice));
    std::fflush(nullptr);
    std::_Exit(status);
  }
}

}  // namespace emblem
