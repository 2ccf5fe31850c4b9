#include "serve/protocol/memory_budget.h"

#include <cstdint>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {

bool MemoryBudget::try_take(size_t bytes) noexcept {
  size_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

bool MemoryBudget::Lease::try_grow(size_t more) {
  if (budget_ != nullptr && !budget_->try_take(more)) return false;
  bytes_ += more;
  return true;
}

void MemoryBudget::Lease::grow(size_t more) {
  if (try_grow(more)) return;
  size_t whole = 0;
  if (__builtin_add_overflow(beside_ + bytes_, more, &whole)) whole = SIZE_MAX;
  budget_->require_can_fit(whole);
  throw Error(ErrorCode::kUnavailable,
              cat("requests hold ", format_bytes(static_cast<double>(budget_->used())), " of the ",
                  format_bytes(static_cast<double>(budget_->limit())),
                  " that they may hold together; try again later, or start the server with a "
                  "larger --max-memory"));
}

void MemoryBudget::require_can_fit(size_t bytes) const {
  if (bytes <= limit_) return;
  throw Error(ErrorCode::kTooLarge,
              cat("the request needs ", format_bytes(static_cast<double>(bytes)),
                  " of memory or more, but all requests together may hold ",
                  format_bytes(static_cast<double>(limit_)),
                  ": send it in smaller parts, or start the server with a larger --max-memory"));
}

void MemoryBudget::Lease::shrink(size_t less) noexcept {
  bytes_ -= less;
  if (budget_ != nullptr) budget_->give_back(less);
}

}  // namespace emblem
