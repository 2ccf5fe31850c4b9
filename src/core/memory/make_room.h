// core/memory/make_room.h - buffers that grow with what they hold.
#pragma once

#include "core/memory/buffer.h"

namespace emblem {

// Memory for at least `size` elements; what was there is lost when it grows, by more than is asked
// for. Waits then for what is enqueued, which may still use it.
template <class T>
void make_room(const Context& context, Buffer<T>& memory, int64_t size) {
  if (memory.size() >= size) return;
  context.synchronize();
  memory = Buffer<T>(context.device, size + size / 4);
}

}  // namespace emblem
