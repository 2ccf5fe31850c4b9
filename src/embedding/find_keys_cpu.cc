#include <algorithm>

#include "core/thread_pool.h"
#include "embedding/find_keys.h"
#include "embedding/index_probe.h"

namespace emblem {
namespace cpu {

void find_keys(const Context& context, IndexRef now, IndexRef old, View<const int64_t> keys,
               View<uint32_t> values) {
  parallel_for(context, keys.size(), 2048, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kKeysInFlight) {
      const int count = static_cast<int>(std::min<int64_t>(kKeysInFlight, end - at));
      probe_block<Probe::kAll>(now, keys.data + at, values.data + at, count);
      if (old.groups != 0)
        probe_block<Probe::kMissing>(old, keys.data + at, values.data + at, count);
    }
  });
}

}  // namespace cpu
}  // namespace emblem
