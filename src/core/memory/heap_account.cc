#include "core/memory/heap_account.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace emblem {
namespace {

// The scope of a thread cannot be handed down to operator new in another way.
thread_local constinit HeapAccount::Scope* current_scope = nullptr;

// Small blocks are taken in steps.
constexpr size_t kStep = size_t{256} << 10;

void* allocate_plain(size_t bytes, size_t alignment) {
  void* data = nullptr;
  if (alignment == 0) {
    data = std::malloc(std::max<size_t>(bytes, 1));
  } else if (posix_memalign(&data, std::max(alignment, sizeof(void*)), bytes) != 0) {
    data = nullptr;
  }
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

// Allocator of the notes themselves.
template <class T>
struct PlainAllocator {
  using value_type = T;
  PlainAllocator() = default;
  template <class U>
  PlainAllocator(const PlainAllocator<U>&) {}

  T* allocate(size_t count) {
    auto* data = static_cast<T*>(std::malloc(count * sizeof(T)));
    if (data == nullptr) throw std::bad_alloc();
    return data;
  }
  void deallocate(T* data, size_t) noexcept { std::free(data); }
  template <class U>
  bool operator==(const PlainAllocator<U>&) const {
    return true;
  }
};

// The large blocks of all accounts.
class HeapBlocks {
 public:
  // Never destroyed: blocks are freed until the process ends.
  static HeapBlocks& all() {
    alignas(HeapBlocks) static unsigned char memory[sizeof(HeapBlocks)];
    static HeapBlocks* const blocks = new (memory) HeapBlocks;
    return *blocks;
  }
  static bool is_counted(const HeapAccount::Scope& scope) { return scope.account_ != nullptr; }
  static std::shared_ptr<HeapAccount> account_of(const HeapAccount::Scope* scope) {
    return scope == nullptr ? nullptr : scope->account_;
  }
  static bool are_there() { return count_.load(std::memory_order_relaxed) > 0; }

  // Takes the bytes from the scope's account, then allocates.
  void* allocate(HeapAccount::Scope& scope, size_t bytes, size_t alignment) {
    HeapAccount& account = *scope.account_;
    if (bytes < HeapAccount::kLargeBlock) return allocate_small(scope, bytes, alignment);
    if (!account.take(bytes)) throw HeapAccountExhausted();
    void* data = nullptr;
    try {
      data = allocate_plain(bytes, alignment);
      const std::lock_guard lock(mutex_);
      blocks_.insert_or_assign(data, Block{scope.account_, bytes});
    } catch (...) {
      std::free(data);
      account.give_back(bytes);
      throw;
    }
    count_.fetch_add(1, std::memory_order_relaxed);
    account.held_.fetch_add(bytes, std::memory_order_relaxed);
    return data;
  }

  void forget(void* data) {
    std::shared_ptr<HeapAccount> account;  // freed after the lock is released
    size_t bytes = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = blocks_.find(data);
      if (found == blocks_.end()) return;
      account = std::move(found->second.account);
      bytes = found->second.bytes;
      blocks_.erase(found);
      count_.fetch_sub(1, std::memory_order_relaxed);
    }
    account->held_.fetch_sub(bytes, std::memory_order_relaxed);
    account->give_back(bytes);
  }

  static void* allocate_small(HeapAccount::Scope& scope, size_t bytes, size_t alignment) {
    if (scope.small_ + bytes > scope.small_taken_) {  // several threads may take one step each
      if (!scope.account_->take(kStep)) throw HeapAccountExhausted();
      scope.small_taken_ += kStep;
    }
    void* data = allocate_plain(bytes, alignment);
    scope.small_ += malloc_usable_size(data);
    return data;
  }
  static void forget_small(HeapAccount::Scope& scope, size_t bytes) {
    size_t small = scope.small_;
    while (!scope.small_.compare_exchange_weak(small, small - std::min(small, bytes))) continue;
  }

 private:
  struct Block {
    std::shared_ptr<HeapAccount> account;
    size_t bytes;
  };

  inline static std::atomic<size_t> count_ = 0;
  std::mutex mutex_;
  std::map<void*, Block, std::less<>, PlainAllocator<std::pair<void* const, Block>>> blocks_;
};

const char* HeapAccountExhausted::what() const noexcept {
  return "a budget of memory is exhausted";
}

HeapAccount::Scope::Scope(std::shared_ptr<HeapAccount> account)
    : account_(std::move(account)), outer_(std::exchange(current_scope, this)) {}

HeapAccount::Scope::~Scope() {
  current_scope = outer_;
  if (account_) account_->give_back(small_taken_);
}

HeapAccount::Scope* HeapAccount::Scope::current() { return current_scope; }

HeapAccount::Joined::Joined(Scope* scope) : outer_(std::exchange(current_scope, scope)) {}
HeapAccount::Joined::~Joined() { current_scope = outer_; }

HeapAccount::Taken::Taken(size_t bytes)
    : account_(HeapBlocks::account_of(current_scope)), bytes_(bytes) {
  if (account_ == nullptr) return;
  if (!account_->take(bytes_)) throw HeapAccountExhausted();
  account_->held_.fetch_add(bytes_, std::memory_order_relaxed);
}

HeapAccount::Taken::~Taken() {
  if (account_ == nullptr) return;
  account_->held_.fetch_sub(bytes_, std::memory_order_relaxed);
  account_->give_back(bytes_);
}

namespace heap {

void* allocate(size_t bytes, size_t alignment) {
  HeapAccount::Scope* scope = current_scope;
  if (scope == nullptr || !HeapBlocks::is_counted(*scope)) return allocate_plain(bytes, alignment);
  return HeapBlocks::all().allocate(*scope, bytes, alignment);
}

void release(void* data) noexcept {
  const bool is_counted = current_scope != nullptr || HeapBlocks::are_there();
  if (is_counted && data != nullptr) {
    const size_t bytes = malloc_usable_size(data);
    if (bytes >= HeapAccount::kLargeBlock)
      HeapBlocks::all().forget(data);
    else if (current_scope != nullptr)
      HeapBlocks::forget_small(*current_scope, bytes);
  }
  std::free(data);
}

}  // namespace heap
}  // namespace emblem
