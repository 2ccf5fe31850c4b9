// core/memory/view.h - non-owning, typed, device-tagged memory. Pass by value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/device/device.h"

namespace emblem {

// A row-major [rows, cols] matrix that is owned elsewhere.
template <class T>
struct View {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 1;
  Device device = Device::kCpu;

  int64_t size() const { return rows * cols; }
  T* row(int64_t r) const { return data + r * cols; }

  // A view to write through is one to read through, too. A template: nvcc warns of a conversion of
  // a View<const T> to itself, which this is not.
  template <class U>
  requires(std::is_same_v<U, const T> && !std::is_const_v<T>) operator View<U>() const {
    return {data, rows, cols, device};
  }
};

}  // namespace emblem
