// python/src/arrays.h - arrays of NumPy as vectors, and the reverse.
#pragma once

#include <nanobind/ndarray.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "python/src/bindings.h"

namespace emblem::python {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Array>
auto span_of(const Array& array) {
  return std::span(array.data(), array.size());
}

template <class T>
std::vector<T> copy_of(const Vector<T>& array) {
  return {array.data(), array.data() + array.size()};
}
template <class T>
std::vector<T> copy_of(const std::optional<Vector<T>>& array) {
  return array ? copy_of(*array) : std::vector<T>();
}

// An array that owns `values`, of this shape.
template <class T>
nb::object to_numpy(std::vector<T> values, std::initializer_list<size_t> shape) {
  auto held = std::make_unique<std::vector<T>>(std::move(values));
  T* const data = held->data();
  const nb::capsule owner(held.release(),
                          [](void* at) noexcept { delete static_cast<std::vector<T>*>(at); });
  return nb::cast(nb::ndarray<nb::numpy, T>(data, shape.size(), shape.begin(), owner));
}
template <class T>
nb::object to_numpy(std::vector<T> values) {
  const size_t size = values.size();
  return to_numpy(std::move(values), {size});
}

}  // namespace emblem::python
