// core/memory/heap_account.h - what a thread allocates while it works for others, taken from a
// budget before it is allocated: for computations on input of any size, whose buffers cannot be
// listed.
//
// Blocks of kLargeBlock bytes and more stay taken until they are freed, on any thread. Smaller ones
// are taken together for as long as the scope lasts. Threads of a ThreadPool count in the scope of
// the thread that they work for. What allocates by heap::allocate counts:
// buffers (core/memory/memory_cpu.cc), and operator new of a server (serve/engine/counted_new.cc);
// and what has a HeapAccount::Taken, such as pinned memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>

namespace emblem {

// What an allocation throws that the budget does not allow; see caught_error().
class HeapAccountExhausted : public std::bad_alloc {
 public:
  const char* what() const noexcept override;
};

// Thread-safe.
class HeapAccount {
 public:
  static constexpr size_t kLargeBlock = size_t{32} << 10;

  virtual ~HeapAccount() = default;

  // Bytes of large blocks that are not freed, and those of Taken.
  size_t held() const { return held_.load(std::memory_order_relaxed); }

  // What this thread allocates during its life is taken from `account`; null: from none. Scopes may
  // be nested: the innermost counts.
  class Scope {
   public:
    explicit Scope(std::shared_ptr<HeapAccount> account);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // The innermost one of this thread; null: none.
    static Scope* current();

   private:
    friend class HeapBlocks;
    const std::shared_ptr<HeapAccount> account_;
    Scope* const outer_;
    std::atomic<size_t> small_ = 0;  // bytes of small blocks that were allocated and not freed here
    std::atomic<size_t> small_taken_ = 0;  // for them
  };

  // What this thread allocates during its life counts in the scope of another thread, which
  // outlives this; null: in none. For threads that work for another one (core/threads).
  class Joined {
   public:
    explicit Joined(Scope* scope);
    ~Joined();
    Joined(const Joined&) = delete;
    Joined& operator=(const Joined&) = delete;

   private:
    Scope* const outer_;
  };

  // Bytes that are not allocated by heap::allocate, taken from the account of the innermost scope
  // for as long as this lives.
  class Taken {
   public:
    explicit Taken(size_t bytes);  // throws HeapAccountExhausted
    ~Taken();
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;

   private:
    std::shared_ptr<HeapAccount> account_;
    const size_t bytes_;
  };

 private:
  friend class HeapBlocks;
  // False: the budget does not have that many.
  virtual bool take(size_t bytes) noexcept = 0;
  virtual void give_back(size_t bytes) noexcept = 0;

  std::atomic<size_t> held_ = 0;
};

namespace heap {
// A block at a multiple of `alignment`, a power of two; 0: as std::malloc aligns it. Without a
// scope it costs a comparison more than that. Throws std::bad_alloc, HeapAccountExhausted.
void* allocate(size_t bytes, size_t alignment);
void release(void* data) noexcept;
}  // namespace heap

}  // namespace emblem
