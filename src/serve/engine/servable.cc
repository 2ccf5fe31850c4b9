#include "serve/engine/servable.h"

#include "core/system/caught_error.h"
#include "serve/engine/counted_new.h"

namespace emblem {
namespace {

// An engine may keep that share of the budget, and less once half of the budget is taken.
constexpr size_t kShareToKeep = 8, kScarce = 2;
constexpr size_t kAlwaysKept = size_t{1} << 20;

class BudgetAccount final : public HeapAccount {
 public:
  explicit BudgetAccount(MemoryBudget& budget) : budget_(budget) {}

 private:
  bool take(size_t bytes) noexcept override { return budget_.try_take(bytes); }
  void give_back(size_t bytes) noexcept override { budget_.give_back(bytes); }

  MemoryBudget& budget_;
};

}  // namespace

void Engine::take_memory_from(MemoryBudget& budget) {
  count_operator_new();
  budget_ = &budget;
  account_ = std::make_shared<BudgetAccount>(budget);
}

void Engine::run(std::span<EngineTask> tasks, EngineTimes& times) noexcept {
  times.start = times.input_end = times.infer_end = times.output_end =
      std::chrono::steady_clock::now();
  try {
    std::optional<HeapAccount::Scope> scope;
    if (account_ != nullptr) scope.emplace(account_);
    compute(tasks, times);
  } catch (...) {
    const Error error = caught_error();
    for (EngineTask& task : tasks) {
      task.outputs.clear();
      if (!task.error) task.error = error;
    }
  }
  release_if_scarce();
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
