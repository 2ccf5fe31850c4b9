// core/memory/host_copy.h - copies between host memory and a view on any device.
#pragma once

#include <type_traits>
#include <vector>

#include "core/memory/buffer.h"

namespace emblem {

// Both synchronize.
template <class T>
std::vector<std::remove_const_t<T>> to_host(const Context& context, View<T> from) {
  std::vector<std::remove_const_t<T>> host(from.size());
  detail::copy(context, host.data(), from.data, host.size() * sizeof(T));
  context.synchronize();
  return host;
}
template <class T>
void to_device(const Context& context, const std::vector<T>& host, View<T> to) {
  EMBLEM_REQUIRE(static_cast<int64_t>(host.size()) == to.size(), "copying ", host.size(),
                 " elements to a place of ", to.size());
  detail::copy(context, to.data, host.data(), host.size() * sizeof(T));
  context.synchronize();
}

}  // namespace emblem
