#include "embedding/find_keys.h"

namespace emblem {

void find_keys(const Context& context, IndexRef now, IndexRef old, View<const int64_t> keys,
               View<uint32_t> values) {
  EMBLEM_REQUIRE(keys.size() == values.size(), "find_keys: ", keys.size(), " keys, but room for ",
                 values.size(), " values");
  EMBLEM_REQUIRE(now.groups > 0, "find_keys: the index has no groups");
  dispatch(
      context.device, [&] { cpu::find_keys(context, now, old, keys, values); },
      [&] { cuda::find_keys(context, now, old, keys, values); });
}

}  // namespace emblem
