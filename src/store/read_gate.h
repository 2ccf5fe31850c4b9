// store/read_gate.h - lets readers use memory without locks, and lets a writer know when no reader
// can be using what it has replaced.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

namespace emblem {

// A reader enters, loads pointers (std::memory_order_acquire), follows them, and leaves; it never
// waits. A writer replaces a pointer (release), calls wait_for_readers, and may then reuse what the
// old pointer showed. A thread inside must not wait for readers.
class ReadGate {
 public:
  class Reader {
   public:
    Reader() = default;
    explicit Reader(std::atomic<int64_t>& inside) : inside_(&inside) {
      inside.fetch_add(1, std::memory_order_relaxed);
      full_fence();
    }
    Reader(Reader&& other) noexcept : inside_(std::exchange(other.inside_, nullptr)) {}
    Reader& operator=(Reader&& other) noexcept {
      leave();
      inside_ = std::exchange(other.inside_, nullptr);
      return *this;
    }
    ~Reader() { leave(); }
    void leave() {
      if (inside_ != nullptr) inside_->fetch_sub(1, std::memory_order_release);
      inside_ = nullptr;
    }

   private:
    std::atomic<int64_t>* inside_ = nullptr;
  };

  Reader enter() const {
    const auto cpu = static_cast<unsigned>(sched_getcpu());
    Lane& lane = lanes_[cpu % kLanes];
    return Reader(lane.inside[door_.load(std::memory_order_relaxed)]);
  }

  // Returns when all readers have left who entered before the call.
  //
  // Either this fence comes before that of a reader or after it: this sees the reader's entry, or
  // the reader loads the new pointer. Readers enter by one of two doors, and the one in use
  // changes, so that a stream of new readers cannot keep a writer waiting.
  void wait_for_readers() {
    std::lock_guard lock(writers_);
    full_fence();
    const unsigned door = door_.load(std::memory_order_relaxed);
    wait_at(1 - door);
    door_.store(1 - door, std::memory_order_relaxed);
    wait_at(door);
  }

 private:
  // ThreadSanitizer does not know fences, and need not: what it checks is ordered by the pointers
  // and the counters.
  static void full_fence() {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
    std::atomic_thread_fence(std::memory_order_seq_cst);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  }

  static constexpr int kLanes = 32;  // CPUs that do not share a counter
  struct alignas(64) Lane {
    std::array<std::atomic<int64_t>, 2> inside{};
  };

  void wait_at(unsigned door) const {
    for (const Lane& lane : lanes_) {
      for (int turn = 0; lane.inside[door].load(std::memory_order_acquire) != 0; ++turn) {
        if (turn < 100) {
          std::this_thread::yield();
        } else {  // a reader reads from a disk while inside
          std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
      }
    }
  }

  mutable std::array<Lane, kLanes> lanes_;
  std::atomic<unsigned> door_{0};
  std::mutex writers_;
};

}  // namespace emblem
