// core/memory/any_view.h - views of matrices whose element type is known only when the program
// runs.
#pragma once

#include "core/math/half.h"
#include "core/memory/view.h"
#include "emblem/error.h"

namespace emblem {

// A row-major [rows, cols] matrix of `dtype` that is owned elsewhere.
struct AnyView {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 1;
  DType dtype = DType::kF32;
  Device device = Device::kCpu;

  AnyView() = default;
  AnyView(void* data, int64_t rows, int64_t cols, DType dtype, Device device)
      : data(data), rows(rows), cols(cols), dtype(dtype), device(device) {}
  AnyView(float* data, int64_t rows, int64_t cols = 1, Device device = Device::kCpu)
      : AnyView(data, rows, cols, DType::kF32, device) {}
  AnyView(View<float> v)  // NOLINT: a view of floats is one
      : AnyView(v.data, v.rows, v.cols, DType::kF32, v.device) {}

  int64_t size() const { return rows * cols; }
  View<float> floats() const {
    EMBLEM_REQUIRE(dtype == DType::kF32, "a matrix of ", name_of(dtype),
                   " was given where fp32 is needed");
    return {static_cast<float*>(data), rows, cols, device};
  }
};

// The same to read only.
struct ConstAnyView {
  const void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 1;
  DType dtype = DType::kF32;
  Device device = Device::kCpu;

  ConstAnyView() = default;
  ConstAnyView(const void* data, int64_t rows, int64_t cols, DType dtype, Device device)
      : data(data), rows(rows), cols(cols), dtype(dtype), device(device) {}
  ConstAnyView(const float* data, int64_t rows, int64_t cols = 1, Device device = Device::kCpu)
      : ConstAnyView(data, rows, cols, DType::kF32, device) {}
  ConstAnyView(AnyView v)  // NOLINT: a view to write through can be read
      : ConstAnyView(v.data, v.rows, v.cols, v.dtype, v.device) {}
  ConstAnyView(View<const float> v)  // NOLINT: a view of floats is one
      : ConstAnyView(v.data, v.rows, v.cols, DType::kF32, v.device) {}
  ConstAnyView(View<float> v) : ConstAnyView(View<const float>(v)) {}  // NOLINT

  int64_t size() const { return rows * cols; }
  View<const float> floats() const {
    EMBLEM_REQUIRE(dtype == DType::kF32, "a matrix of ", name_of(dtype),
                   " was given where fp32 is needed");
    return {static_cast<const float*>(data), rows, cols, device};
  }
};

}  // namespace emblem
