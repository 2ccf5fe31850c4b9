// serve/protocol/memory_budget.h - how many bytes the requests and answers of all clients may hold
// together. Whatever holds bytes for a client takes them from here before it allocates them.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace emblem {

// Thread-safe; without locks. Outlives its leases.
class MemoryBudget {
 public:
  explicit MemoryBudget(size_t limit) : limit_(limit) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Bytes that are taken until the lease is gone. Used by one thread at a time.
  class Lease {
   public:
    Lease() = default;  // lease of no budget: anything can be taken
    // `beside`: bytes that the same request holds in other leases, and keeps for as long.
    explicit Lease(MemoryBudget& budget, size_t beside = 0) : budget_(&budget), beside_(beside) {}
    ~Lease() { shrink(bytes_); }
    Lease(Lease&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          beside_(other.beside_),
          bytes_(std::exchange(other.bytes_, 0)) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(beside_, other.beside_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }

    // False, with nothing taken, when that would exceed the limit.
    [[nodiscard]] bool try_grow(size_t more);
    // try_grow, or throw kUnavailable; kTooLarge where even an empty budget would not suffice for
    // what the request holds and these.
    void grow(size_t more);
    void shrink(size_t less) noexcept;
    size_t bytes() const { return bytes_; }

   private:
    MemoryBudget* budget_ = nullptr;
    size_t beside_ = 0;
    size_t bytes_ = 0;
  };

  // Throws kTooLarge for a request that will hold `bytes` or more where that exceeds the limit.
  void require_can_fit(size_t bytes) const;

  // Takes memory for those who keep their own accounts. False, with nothing taken, when that
  // would exceed the limit.
  [[nodiscard]] bool try_take(size_t bytes) noexcept;
  void give_back(size_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  size_t limit() const { return limit_; }
  size_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const size_t limit_;
  std::atomic<size_t> used_ = 0;
};

// A lease of `budget`, or of nothing where that is null.
inline MemoryBudget::Lease lease_of(MemoryBudget* budget, size_t beside = 0) {
  return budget == nullptr ? MemoryBudget::Lease() : MemoryBudget::Lease(*budget, beside);
}

}  // namespace emblem
