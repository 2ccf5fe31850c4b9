// store/read_gate.h - lets readers use memory without locks, and tells a writer when nobody can be
// using any more what it took out of sight.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

namespace emblem {

// A reader enters, loads pointers (with std::memory_order_seq_cst), follows them, and leaves; it
// never waits. A writer replaces a pointer (seq_cst), calls wait_for_readers, and may then reuse
// what the old pointer showed. Who is inside must not wait for readers.
class ReadGate {
 public:
  class Pass {
   public:
    Pass() = default;
    explicit Pass(std::atomic<int64_t>& inside) : inside_(&inside) {
      inside.fetch_add(1, std::memory_order_seq_cst);
    }
    Pass(Pass&& other) noexcept : inside_(std::exchange(other.inside_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      leave();
      inside_ = std::exchange(other.inside_, nullptr);
      return *this;
    }
    ~Pass() { leave(); }
    void leave() {
      if (inside_ != nullptr) inside_->fetch_sub(1, std::memory_order_release);
      inside_ = nullptr;
    }

   private:
    std::atomic<int64_t>* inside_ = nullptr;
  };

  Pass enter() const {
    const auto cpu = static_cast<unsigned>(sched_getcpu());
    Lane& lane = lanes_[cpu % kLanes];
    return Pass(lane.inside[door_.load(std::memory_order_relaxed)]);
  }

  // Returns when all readers have left who entered before the call.
  //
  // Seen from the total order of seq_cst operations: a reader whose entry this does not see entered
  // after the caller replaced its pointer, and so loads the new one. Readers enter by one of two
  // doors, and the one in use changes, so that a stream of new readers cannot keep a writer
  // waiting.
  void wait_for_readers() {
    std::lock_guard lock(writers_);
    const unsigned door = door_.load(std::memory_order_relaxed);
    wait_at(1 - door);
    door_.store(1 - door, std::memory_order_seq_cst);
    wait_at(door);
  }

 private:
  static constexpr int kLanes = 32;  // CPUs that do not share a counter
  struct alignas(64) Lane {
    std::array<std::atomic<int64_t>, 2> inside{};
  };

  void wait_at(unsigned door) const {
    for (const Lane& lane : lanes_) {
      while (lane.inside[door].load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
    }
  }

  mutable std::array<Lane, kLanes> lanes_;
  std::atomic<unsigned> door_{0};
  std::mutex writers_;
};

}  // namespace emblem
