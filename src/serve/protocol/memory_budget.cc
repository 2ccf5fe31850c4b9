#include "serve/protocol/memory_budget.h"

#include "core/text.h"
#include "emblem/error.h"

namespace emblem {

bool MemoryBudget::Lease::try_grow(size_t more) {
  if (budget_ != nullptr) {
    size_t used = budget_->used_.load(std::memory_order_relaxed);
    do {
      if (more > budget_->limit_ - used) {
        budget_->refusals_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
    } while (!budget_->used_.compare_exchange_weak(used, used + more, std::memory_order_relaxed));
  }
  bytes_ += more;
  return true;
}

void MemoryBudget::Lease::grow(size_t more) {
  if (try_grow(more)) return;
  throw Error(ErrorCode::kUnavailable,
              cat("requests hold ", format_bytes(static_cast<double>(budget_->used())), " of the ",
                  format_bytes(static_cast<double>(budget_->limit())),
                  " that they may hold together; try again later, or start the server with a "
                  "larger --max-memory"));
}

void MemoryBudget::Lease::shrink(size_t less) noexcept {
  bytes_ -= less;
  if (budget_ != nullptr) budget_->used_.fetch_sub(less, std::memory_order_relaxed);
}

}  // namespace emblem
