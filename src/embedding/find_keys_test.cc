#include "embedding/find_keys.h"

#include <gmock/gmock.h>

#include "core/device_test.h"
#include "core/random.h"
#include "embedding/index.h"

namespace emblem {
namespace {

class FindKeysTest : public DeviceTest {
 protected:
  // The arrays of `ref` on the device.
  struct Arrays {
    Buffer<uint8_t> tags;
    Buffer<IndexSlot> slots;
    IndexRef ref;
  };
  Arrays upload(const IndexRef& ref) {
    Arrays arrays;
    const auto slots = static_cast<int64_t>(ref.groups * kGroupSlots);
    if (slots == 0) return arrays;
    arrays.tags = Buffer<uint8_t>::from(context_, {ref.tags, ref.tags + slots});
    arrays.slots = Buffer<IndexSlot>::from(context_, {ref.slots, ref.slots + slots});
    arrays.ref = {arrays.tags.data(), arrays.slots.data(), ref.groups};
    return arrays;
  }
  std::vector<uint32_t> find(const Index& index, const std::vector<int64_t>& keys) {
    const Arrays now = upload(index.ref()), old = upload(index.old_ref());
    const auto device_keys = Buffer<int64_t>::from(context_, keys);
    Buffer<uint32_t> values(context_.device, static_cast<int64_t>(keys.size()));
    find_keys(context_, now.ref, old.ref, device_keys.view(), values.view());
    return values.to_host(context_);
  }
};

TEST_P(FindKeysTest, FindsWhatTheIndexFindsAlsoWhileItGrows) {
  Index index;
  Random random{.seed = 2};
  std::vector<int64_t> keys = {0, -1, INT64_MIN, INT64_MAX};
  bool was_growing = false;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 37; ++i) {
      const auto key = static_cast<int64_t>(random.bits());
      index.insert(key, static_cast<uint32_t>(i));
      keys.push_back(i % 2 ? key : static_cast<int64_t>(random.bits()));
    }
    for (size_t i = 0; i < keys.size(); i += 7) index.erase(keys[i]);
    was_growing |= index.growing();
    const auto values = find(index, keys);
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(values[i], index.find(keys[i])) << keys[i];
  }
  EXPECT_TRUE(was_growing);
}

TEST_P(FindKeysTest, NoKeysAreNoError) { EXPECT_TRUE(find(Index(), {}).empty()); }

TEST_P(FindKeysTest, RefusesRoomForAnotherNumberOfValues) {
  const Index index;
  const Buffer<int64_t> keys(context_.device, 3);
  Buffer<uint32_t> values(context_.device, 2);
  EXPECT_THAT([&] { find_keys(context_, index.ref(), {}, keys.view(), values.view()); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("3 keys, but room for 2 values")));
}

EMBLEM_TEST_ON_EVERY_DEVICE(FindKeysTest);

}  // namespace
}  // namespace emblem
