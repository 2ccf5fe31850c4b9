#include <algorithm>

#include "core/cuda_check.h"
#include "embedding/find_keys.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 16;
constexpr uint32_t kNone = 0xffffffffu;

// The 16 tags of a group are one 16-byte load; four are compared at once.
__device__ uint32_t find(const IndexRef& ref, int64_t key) {
  const uint64_t hash = IndexRef::hash(key);
  const uint32_t tag = IndexRef::tag(hash) * 0x01010101u;
  for (uint64_t group = ref.home(hash);; group = ref.next(group)) {
    const uint4 tags = *reinterpret_cast<const uint4*>(ref.tags + group * kGroupSlots);
    const uint32_t words[4] = {tags.x, tags.y, tags.z, tags.w};
    bool full = true;
    for (int word = 0; word < 4; ++word) {
      for (uint32_t same = __vcmpeq4(words[word], tag) & 0x80808080u; same != 0; same &= same - 1) {
        const IndexSlot slot = ref.slots[group * kGroupSlots + word * 4 + (__ffs(same) - 1) / 8];
        if (slot.key() == key) return slot.value;
      }
      full = full && __vcmpeq4(words[word], 0) == 0;
    }
    if (!full) return kNone;
  }
}

__global__ void find_keys_kernel(IndexRef now, IndexRef old, const int64_t* keys, int64_t count,
                                 uint32_t* values) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    uint32_t value = find(now, keys[i]);
    if (value == kNone && old.groups != 0) value = find(old, keys[i]);
    values[i] = value;
  }
}

}  // namespace

void find_keys(const Context& context, IndexRef now, IndexRef old, View<const int64_t> keys,
               View<uint32_t> values) {
  if (keys.size() == 0) return;
  const int64_t blocks = std::min(kMostBlocks, (keys.size() + kThreads - 1) / kThreads);
  find_keys_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, context.stream>>>(
      now, old, keys.data, keys.size(), values.data);
  cuda_check(cudaGetLastError(), "launching find_keys_kernel");
}

}  // namespace emblem::cuda
