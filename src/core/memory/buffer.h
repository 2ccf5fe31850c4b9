// core/memory/buffer.h - owning, typed, device-tagged memory, aligned to 64 bytes and not
// initialized.
//
// Thread-compatible: const methods may run concurrently; others need a lock.
#pragma once

#include <memory>
#include <vector>

#include "core/device/context.h"
#include "core/memory/view.h"

namespace emblem {

namespace detail {
void* allocate(Device device, size_t bytes);
void release(Device device, void* data) noexcept;
void copy(const Context& context, void* dst, const void* src, size_t bytes);  // any to any
void zero(const Context& context, void* data, size_t bytes);
}  // namespace detail

template <class T>
class Buffer {
 public:
  Buffer() : data_(nullptr, Deleter{Device::kCpu}), rows_(0), cols_(1) {}
  Buffer(Device device, int64_t rows, int64_t cols = 1)
      : data_(static_cast<T*>(detail::allocate(device, rows * cols * sizeof(T))), Deleter{device}),
        rows_(rows),
        cols_(cols) {}

  // Copies `host` to the device of `context`. Synchronizes.
  static Buffer from(const Context& context, const std::vector<T>& host, int64_t cols = 1) {
    Buffer buffer(context.device, static_cast<int64_t>(host.size()) / cols, cols);
    detail::copy(context, buffer.data_.get(), host.data(), host.size() * sizeof(T));
    context.synchronize();
    return buffer;
  }

  // Filled with zero bytes.
  static Buffer zeros(const Context& context, int64_t rows, int64_t cols = 1) {
    Buffer buffer(context.device, rows, cols);
    detail::zero(context, buffer.data_.get(), buffer.size() * sizeof(T));
    return buffer;
  }

  // Copies to host memory. Synchronizes.
  std::vector<T> to_host(const Context& context) const {
    std::vector<T> host(rows_ * cols_);
    detail::copy(context, host.data(), data_.get(), host.size() * sizeof(T));
    context.synchronize();
    return host;
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  int64_t size() const { return rows_ * cols_; }
  View<T> view() { return {data_.get(), rows_, cols_, data_.get_deleter().device}; }
  View<const T> view() const { return {data_.get(), rows_, cols_, data_.get_deleter().device}; }

 private:
  struct Deleter {
    Device device;
    void operator()(T* data) const noexcept { detail::release(device, data); }
  };
  std::unique_ptr<T, Deleter> data_;
  int64_t rows_;
  int64_t cols_;
};

}  // namespace emblem
