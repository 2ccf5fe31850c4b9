// embedding/cpu/rows_on_device_test.h - rows of a table on any device, for the tests of kernels.
#pragma once

#include <vector>

#include "core/memory/buffer.h"
#include "embedding/rows_ref.h"

namespace emblem {

// `rows` zero rows in slabs of four, so that every test crosses slabs.
class RowsOnDevice {
 public:
  RowsOnDevice(const Context& context, int64_t rows, int64_t dim, DType dtype, int64_t state_floats)
      : context_(context), dim_(dim), dtype_(dtype), state_floats_(state_floats) {
    ref_ = {.slab_shift = 2, .dim = dim, .dtype = dtype};
    ref_.state_offset = (dim * size_of(dtype) + 3) / 4 * 4;
    ref_.stride = ref_.state_offset + state_floats * 4 + 16;
    std::vector<char*> pointers;
    for (int64_t first = 0; first < rows; first += 4) {
      slabs_.push_back(Buffer<char>::from(context, std::vector<char>(4 * ref_.stride)));
      pointers.push_back(slabs_.back().data());
    }
    pointers_ = Buffer<char*>::from(context, pointers);
    ref_.slabs = pointers_.data();
  }

  RowsRef ref() const { return ref_; }

  struct Row {
    std::vector<float> weights, state;
  };
  Row get(int64_t row) const {
    const auto slab = slabs_[row / 4].to_host(context_);
    const char* at = slab.data() + row % 4 * ref_.stride;
    Row result;
    with_weight_type(dtype_, [&](auto type) {
      for (int64_t d = 0; d < dim_; ++d) {
        result.weights.push_back(load_weight(reinterpret_cast<const decltype(type)*>(at) + d));
      }
    });
    const auto* state = reinterpret_cast<const float*>(at + ref_.state_offset);
    result.state.assign(state, state + state_floats_);
    return result;
  }
  void set(int64_t row, const Row& values) {
    auto slab = slabs_[row / 4].to_host(context_);
    char* at = slab.data() + row % 4 * ref_.stride;
    with_weight_type(dtype_, [&](auto type) {
      for (int64_t d = 0; d < dim_; ++d) {
        store_weight(reinterpret_cast<decltype(type)*>(at) + d, values.weights[d]);
      }
    });
    std::copy(values.state.begin(), values.state.end(),
              reinterpret_cast<float*>(at + ref_.state_offset));
    detail::copy(context_, slabs_[row / 4].data(), slab.data(), slab.size());
    context_.synchronize();
  }

 private:
  Context context_;
  int64_t dim_;
  DType dtype_;
  int64_t state_floats_;
  RowsRef ref_;
  std::vector<Buffer<char>> slabs_;
  Buffer<char*> pointers_;
};

}  // namespace emblem
