#include "serve/protocol/shared_memory.h"

#include <gmock/gmock.h>

#include "emblem/error.h"
#include "serve/protocol/shared_object_test.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SharedMemoryTest, PartsOfARegionAreTheObjectsOwnBytes) {
  SharedObject object(10000);
  SharedMemoryRegions regions;
  regions.register_system({"r", object.key(), 5000, 1000});
  object.bytes()[5010] = std::byte{42};
  const auto part = regions.part("r", 10, 4);
  EXPECT_EQ(part.bytes.size(), 4u);
  EXPECT_EQ(part.bytes[0], std::byte{42});
  part.bytes[1] = std::byte{7};
  EXPECT_EQ(object.bytes()[5011], std::byte{7});
}

TEST(SharedMemoryTest, PartsStayMappedAfterTheRegionIsUnregistered) {
  SharedObject object(4096);
  SharedMemoryRegions regions;
  regions.register_system({"r", object.key(), 0, 4096});
  const auto part = regions.part("r", 0, 4096);
  regions.unregister_system("r");
  EXPECT_THROW(regions.part("r", 0, 1), Error);
  part.bytes[4095] = std::byte{1};
  EXPECT_EQ(object.bytes()[4095], std::byte{1});
}

TEST(SharedMemoryTest, ListsAndForgetsRegions) {
  SharedObject object(4096);
  SharedMemoryRegions regions;
  regions.unregister_system("nobody");
  regions.register_system({"a", object.key(), 0, 10});
  regions.register_system({"b", object.key(), 20, 30});
  EXPECT_EQ(regions.system_status("").size(), 2u);
  EXPECT_EQ(regions.system_status("b").at(0).offset, 20u);
  EXPECT_THROW(regions.system_status("c"), Error);
  regions.unregister_system("");
  EXPECT_TRUE(regions.system_status("").empty());
}

TEST(SharedMemoryTest, RefusesWhatIsNotThere) {
  SharedObject object(4096);
  SharedMemoryRegions regions;
  const auto refused = [&](const SystemRegion& region, const char* why) {
    EXPECT_THAT([&] { regions.register_system(region); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused({"r", "/emblem_test_no_such_object", 0, 10}, "there is no object");
  refused({"r", "/../../etc/passwd", 0, 10}, "there is no object");
  refused({"r", object.key(), 0, 4097}, "do not fit into the 4096 bytes");
  refused({"r", object.key(), 4097, 1}, "do not fit");
  refused({"r", object.key(), UINT64_MAX, 2}, "do not fit");
  refused({"r", object.key(), 0, 0}, "no bytes");
  refused({"", object.key(), 0, 1}, "needs a name");
  regions.register_system({"r", object.key(), 0, 100});
  refused({"r", object.key(), 0, 100}, "registered already");
}

TEST(SharedMemoryTest, RefusesPartsOutOfRange) {
  SharedObject object(4096);
  SharedMemoryRegions regions;
  regions.register_system({"r", object.key(), 0, 100});
  regions.part("r", 100, 0);
  EXPECT_THROW(regions.part("r", 0, 101), Error);
  EXPECT_THROW(regions.part("r", 99, 2), Error);
  EXPECT_THROW(regions.part("r", UINT64_MAX, 2), Error);
  EXPECT_THROW(regions.part("r", 1, UINT64_MAX), Error);
  EXPECT_THROW(regions.part("other", 0, 1), Error);
}

TEST(SharedMemoryTest, NoticesAnObjectThatShrank) {
  SharedObject object(8192);
  SharedMemoryRegions regions;
  regions.register_system({"r", object.key(), 0, 8192});
  const auto part = regions.part("r", 0, 8192);
  object.resize(4096);
  EXPECT_THROW(regions.part("r", 0, 8), Error);
  EXPECT_THROW(SharedMemoryRegions::store(part, std::vector<std::byte>(1)), Error);
}

}  // namespace
}  // namespace emblem
