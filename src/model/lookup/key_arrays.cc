#include "model/lookup/key_arrays.h"

#include <algorithm>

#include "model/model_batch.h"

namespace emblem {
namespace {

void shift_offsets_cpu(const FeatureKeys& keys, int32_t shift, int32_t* to) {
  const int32_t* offsets = keys.offsets.data;
  for (int64_t bag = 0; bag < bags_of(keys); ++bag)
    to[bag] = shift + (keys.offsets.size() > 0 ? offsets[bag] : static_cast<int32_t>(bag));
}

void first_keys_cpu(const FeatureKeys& keys, int64_t missing, int64_t* to) {
  const int32_t* offsets = keys.offsets.data;
  if (keys.offsets.size() == 0) {
    std::copy_n(keys.keys.data, keys.keys.size(), to);
    return;
  }
  for (int64_t bag = 0; bag < bags_of(keys); ++bag)
    to[bag] = offsets[bag] < offsets[bag + 1] ? keys.keys.data[offsets[bag]] : missing;
}

void add_flags_cpu(View<const uint8_t> flags, int64_t* counts) {
  counts[0] += flags.size();
  counts[1] += std::count(flags.data, flags.data + flags.size(), uint8_t{1});
}

}  // namespace

void shift_offsets(const Context& context, const FeatureKeys& keys, int32_t shift, int32_t* to) {
  dispatch(
      context.device, [&] { shift_offsets_cpu(keys, shift, to); },
      [&] { cuda::shift_offsets(context, keys, shift, to); });
}

void fill(const Context& context, float value, int64_t count, float* to) {
  dispatch(
      context.device, [&] { std::fill_n(to, count, value); },
      [&] { cuda::fill(context, value, count, to); });
}

void first_keys(const Context& context, const FeatureKeys& keys, int64_t missing, int64_t* to) {
  dispatch(
      context.device, [&] { first_keys_cpu(keys, missing, to); },
      [&] { cuda::first_keys(context, keys, missing, to); });
}

void add_flags(const Context& context, View<const uint8_t> flags, int64_t* counts) {
  dispatch(
      context.device, [&] { add_flags_cpu(flags, counts); },
      [&] { cuda::add_flags(context, flags, counts); });
}

}  // namespace emblem
