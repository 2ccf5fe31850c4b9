// core/threads/becomes_true_test.h - waiting in tests for what another thread or process does.
#pragma once

#include <chrono>
#include <thread>

namespace emblem {

// Whether `condition` holds, now or within two minutes: long enough for any machine, so that a test
// that waits in vain has found a fault.
template <class Condition>
bool becomes_true(Condition&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace emblem
