#include "serve/engine/servable.h"

#include "core/system/caught_error.h"
#include "serve/engine/counted_new.h"

namespace emblem {
namespace {

// An engine may keep that share of the budget, and less once half of the budget is taken.
constexpr size_t kShareToKeep = 8, kScarce = 2;
constexpr size_t kAlwaysKept = size_t{1} << 20;

}  // namespace

class BudgetAccount final : public HeapAccount {
 public:
  explicit BudgetAccount(MemoryBudget& budget) : budget_(budget) {}

  // From now on the batch that has `kept` bytes from earlier ones runs.
  void begin_batch() {
    kept_ = held();
    needed_ = 0;
  }
  // What the batch held and asked for when it was refused; 0: it was not.
  size_t needed() const { return needed_; }

 private:
  bool take(size_t bytes) noexcept override {
    if (budget_.try_take(bytes)) return true;
    const size_t held_before = held();
    needed_ = bytes + (held_before > kept_ ? held_before - kept_ : 0);
    return false;
  }
  void give_back(size_t bytes) noexcept override { budget_.give_back(bytes); }

  MemoryBudget& budget_;
  size_t kept_ = 0;
  std::atomic<size_t> needed_ = 0;
};

Engine::~Engine() = default;

void Engine::take_memory_from(MemoryBudget& budget) {
  count_operator_new();
  budget_ = &budget;
  account_ = std::make_shared<BudgetAccount>(budget);
}

void Engine::run(std::span<EngineTask> tasks, EngineTimes& times) noexcept {
  times.start = times.input_end = times.infer_end = times.output_end =
      std::chrono::steady_clock::now();
  try {
    compute_counted(tasks, times);
  } catch (...) {
    const Error error = caught_error();
    for (EngineTask& task : tasks) {
      task.outputs.clear();
      if (!task.error) task.error = error;
    }
  }
  release_if_scarce();
}

void Engine::compute_counted(std::span<EngineTask> tasks, EngineTimes& times) {
  if (account_ == nullptr) return compute(tasks, times);
  account_->begin_batch();
  try {
    const HeapAccount::Scope scope(account_);
    compute(tasks, times);
  } catch (const HeapAccountExhausted&) {
    if (tasks.size() == 1) budget_->require_can_fit(account_->needed());  // alone, it never fits
    throw;
  }
}

void Engine::release_if_scarce() noexcept {
  if (account_ == nullptr) return;
  const size_t kept = account_->held(), limit = budget_->limit();
  const bool is_scarce = kept > kAlwaysKept && budget_->used() > limit / kScarce;
  if (kept <= limit / kShareToKeep && !is_scarce) return;
  const HeapAccount::Scope paused(nullptr);  // a new model is no part of a batch
  try {
    release();
  } catch (...) {
    log_caught("the buffers of an engine stay allocated");
  }
}

}  // namespace emblem
