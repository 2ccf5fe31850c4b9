#include "serve/protocol/shared_memory.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "emblem/error.h"
#include "serve/protocol/shared_object_test.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Property;
using testing::Throws;
using testing::ThrowsMessage;

SharedMemoryOptions all_allowed() { return {.allowed_prefixes = {""}}; }

std::vector<std::byte> bytes_of(const SharedMemoryRegions::Copy& copy) {
  return {copy.bytes().begin(), copy.bytes().end()};
}

TEST(SharedMemoryTest, ReadsAndWritesPartsOfARegion) {
  SharedObject object(10000);
  SharedMemoryRegions regions(all_allowed());
  regions.register_system({"r", object.key(), 5000, 1000});
  object.bytes()[5010] = std::byte{42};
  EXPECT_THAT(bytes_of(regions.read("r", 10, 2)), ElementsAre(std::byte{42}, std::byte{0}));
  regions.part("r", 11, 4).write(std::vector{std::byte{7}, std::byte{8}});
  EXPECT_EQ(object.bytes()[5011], std::byte{7});
  EXPECT_EQ(object.bytes()[5012], std::byte{8});
}

TEST(SharedMemoryTest, WhatWasReadStaysAsItWas) {
  SharedObject object(4096);
  SharedMemoryRegions regions(all_allowed());
  regions.register_system({"r", object.key(), 0, 4096});
  object.bytes()[0] = std::byte{1};
  const auto copy = regions.read("r", 0, 1);
  object.bytes()[0] = std::byte{2};
  object.resize(0);
  EXPECT_THAT(bytes_of(copy), ElementsAre(std::byte{1}));
}

TEST(SharedMemoryTest, PartsCanBeWrittenAfterTheRegionIsUnregistered) {
  SharedObject object(4096);
  SharedMemoryRegions regions(all_allowed());
  regions.register_system({"r", object.key(), 0, 4096});
  const auto part = regions.part("r", 4095, 1);
  regions.unregister_system("r");
  EXPECT_THROW(regions.part("r", 0, 1), Error);
  part.write(std::vector{std::byte{1}});
  EXPECT_EQ(object.bytes()[4095], std::byte{1});
}

TEST(SharedMemoryTest, ListsAndForgetsRegions) {
  SharedObject object(4096);
  SharedMemoryRegions regions(all_allowed());
  regions.unregister_system("unknown");
  regions.register_system({"a", object.key(), 0, 10});
  regions.register_system({"b", object.key(), 20, 30});
  EXPECT_EQ(regions.system_status("").size(), 2u);
  EXPECT_EQ(regions.system_status("b").at(0).offset, 20u);
  EXPECT_THROW(regions.system_status("c"), Error);
  regions.unregister_system("");
  EXPECT_TRUE(regions.system_status("").empty());
}

void expect_refused(SharedMemoryRegions& regions, const SystemRegion& region, ErrorCode code,
                    const char* why) {
  EXPECT_THAT(
      [&] { regions.register_system(region); },
      Throws<Error>(AllOf(Property(&Error::code, code), Property(&Error::what, HasSubstr(why)))));
}

TEST(SharedMemoryTest, RefusesWhatIsNotThere) {
  SharedObject object(4096);
  SharedMemoryRegions regions(all_allowed());
  const auto refused = [&](const SystemRegion& region, const char* why) {
    expect_refused(regions, region, ErrorCode::kInvalidArgument, why);
  };
  refused({"r", "/emblem_test_no_such_object", 0, 10}, "there is no object");
  refused({"r", object.key(), 0, 4097}, "do not fit into the 4096 bytes");
  refused({"r", object.key(), 4097, 1}, "do not fit");
  refused({"r", object.key(), UINT64_MAX, 2}, "do not fit");
  refused({"r", object.key(), 0, 0}, "no bytes");
  refused({"", object.key(), 0, 1}, "needs a name");
  regions.register_system({"r", object.key(), 0, 100});
  refused({"r", object.key(), 0, 100}, "registered already");
}

TEST(SharedMemoryTest, KeysAreNamesOfObjectsAndNotPaths) {
  SharedMemoryRegions regions(all_allowed());
  for (const std::string key :
       {"", "/", "//", ".", "..", "/..", "/../../etc/passwd", "a/b", "a/", "../a", "/a/../b"}) {
    SCOPED_TRACE(key);
    expect_refused(regions, {"r", key, 0, 10}, ErrorCode::kInvalidArgument,
                   "not the name of a shared memory object");
  }
  expect_refused(regions, {"r", std::string("a\0b", 3), 0, 10}, ErrorCode::kInvalidArgument,
                 "not the name");
  expect_refused(regions, {"r", std::string(255, 'a'), 0, 10}, ErrorCode::kInvalidArgument,
                 "not the name");
}

TEST(SharedMemoryTest, RefusesObjectsWhoseNamesAreNotAllowed) {
  SharedObject object(4096);
  const std::string plain = object.key().substr(1);
  SharedMemoryRegions closed;
  expect_refused(closed, {"r", object.key(), 0, 10}, ErrorCode::kPermissionDenied,
                 "start the server with --allow-shared-memory");
  SharedMemoryRegions other({.allowed_prefixes = {"triton_", "/emblem_other_"}});
  for (const std::string& key : {object.key(), plain, std::string("/triton"), std::string("x")})
    expect_refused(other, {"r", key, 0, 10}, ErrorCode::kPermissionDenied, "prefix");
  for (const std::string prefix : {"emblem_test_", "/emblem_test_"}) {
    SharedMemoryRegions open({.allowed_prefixes = {"triton_", prefix}});
    open.register_system({"with", object.key(), 0, 10});
    open.register_system({"without", plain, 0, 10});
    open.register_system({"many", "//" + plain, 0, 10});
  }
}

TEST(SharedMemoryTest, LimitsTheNumberAndTheBytesOfRegions) {
  SharedObject object(4096);
  SharedMemoryRegions regions({.allowed_prefixes = {""}, .max_regions = 2, .max_bytes = 4096 + 10});
  regions.register_system({"a", object.key(), 0, 4096});
  expect_refused(regions, {"b", object.key(), 0, 11}, ErrorCode::kUnavailable,
                 "the limit of all regions is 4106");
  regions.register_system({"b", object.key(), 0, 10});
  expect_refused(regions, {"c", object.key(), 0, 1}, ErrorCode::kUnavailable,
                 "there are 2 regions, which is the limit");
  regions.unregister_system("a");
  regions.register_system({"c", object.key(), 0, 1});
}

TEST(SharedMemoryTest, RefusesPartsOutOfRange) {
  SharedObject object(4096);
  SharedMemoryRegions regions(all_allowed());
  regions.register_system({"r", object.key(), 0, 100});
  regions.part("r", 100, 0);
  EXPECT_TRUE(regions.read("r", 100, 0).bytes().empty());
  EXPECT_THROW(regions.part("r", 0, 101), Error);
  EXPECT_THROW(regions.part("r", 99, 2), Error);
  EXPECT_THROW(regions.part("r", UINT64_MAX, 2), Error);
  EXPECT_THROW(regions.read("r", 1, UINT64_MAX), Error);
  EXPECT_THROW(regions.read("other", 0, 1), Error);
}

TEST(SharedMemoryTest, NoticesAnObjectThatShrank) {
  SharedObject object(8192);
  SharedMemoryRegions regions(all_allowed());
  regions.register_system({"r", object.key(), 0, 8192});
  const auto part = regions.part("r", 0, 8192);
  object.resize(4096);
  EXPECT_EQ(regions.read("r", 0, 4096).bytes().size(), 4096u);
  EXPECT_THAT([&] { regions.read("r", 1, 4096); },
              ThrowsMessage<Error>(HasSubstr("1 bytes are missing at the end")));
  EXPECT_THROW(part.write(std::vector<std::byte>(4097)), Error);
  part.write(std::vector<std::byte>(4096));
}

TEST(SharedMemoryTest, ATruncatedObjectIsAnErrorOfTheReadAndNeverOfTheProcess) {
  SharedObject object(1 << 20);
  SharedMemoryRegions regions(all_allowed());
  regions.register_system({"r", object.key(), 0, 1 << 20});
  std::atomic<bool> stop = false;
  std::atomic<int> tries = 0;
  std::thread truncating([&] {
    while (!stop) {
      object.resize(0);
      object.resize(1 << 20);
      // While the next one runs, or before.
      for (const int seen = tries; !stop && tries == seen;) std::this_thread::yield();
    }
  });
  int read = 0, refused = 0;
  const std::vector<std::byte> answer(1 << 20);
  while (read < 20 || refused < 20) {
    try {
      EXPECT_EQ(regions.read("r", 0, 1 << 20).bytes().size(), size_t{1} << 20);
      regions.part("r", 0, 1 << 20).write(answer);
      ++read;
    } catch (const Error&) {
      ++refused;
    }
    ++tries;
  }
  stop = true;
  truncating.join();
}

TEST(SharedMemoryTest, CopiesAreTakenFromTheMemoryBudget) {
  SharedObject object(4096);
  MemoryBudget budget(5000);
  SharedMemoryRegions regions(
      {.allowed_prefixes = {""}, .max_tensor_bytes = 4000, .memory = &budget});
  regions.register_system({"r", object.key(), 0, 4096});
  EXPECT_THAT([&] { regions.read("r", 0, 4001); },
              ThrowsMessage<Error>(HasSubstr("--max-request-size")));
  {
    const auto copy = regions.read("r", 0, 4000);
    EXPECT_EQ(budget.used(), 4000u);
    EXPECT_THAT([&] { regions.read("r", 0, 1001); },
                Throws<Error>(Property(&Error::code, ErrorCode::kUnavailable)));
  }
  EXPECT_EQ(budget.used(), 0u);
}

}  // namespace
}  // namespace emblem
