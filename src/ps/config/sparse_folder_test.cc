#include "ps/config/sparse_folder.h"

#include <gmock/gmock.h>

#include "ps/tables/served_test.h"
#include "ps/updates/update_message.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SparseFolderTest, ReadsAllRowsInBoundedBatches) {
  TempFolder folder;
  const SparseFolder source(write_ramp(folder, "t", -5, 100000, 64), 64);
  EXPECT_EQ(source.rows(), 100005);
  int64_t next = -5, batches = 0;
  source.read([&](std::span<const int64_t> keys, std::span<const float> rows) {
    ++batches;
    EXPECT_LE(rows.size_bytes(), 8u << 20);
    for (size_t i = 0; i < keys.size(); ++i, ++next) {
      ASSERT_EQ(keys[i], next);
      ASSERT_EQ(rows[i * 64 + 63], static_cast<float>(next));
    }
  });
  EXPECT_EQ(next, 100000);
  EXPECT_GT(batches, 2);
}

TEST(SparseFolderTest, SizesThatDoNotFitAreNamed) {
  TempFolder folder;
  const std::string path = write_ramp(folder, "t", 0, 10, 4);
  EXPECT_THAT([&] { SparseFolder(path, 5); },
              ThrowsMessage<Error>(
                  HasSubstr("emb_vector has 160 bytes, but 10 keys of dimension 5 need 200")));
  folder.write("t/key", "12345");
  EXPECT_THAT([&] { SparseFolder(path, 4); },
              ThrowsMessage<Error>(HasSubstr("key has 5 bytes, which is not a whole number")));
  EXPECT_THAT([&] { SparseFolder(folder.path("none"), 4); },
              ThrowsMessage<Error>(HasSubstr("none/key: No such file")));
}

TEST(UpdateMessageTest, IsThatOfHps) {
  const std::vector<int64_t> keys = {1, -2};
  const std::vector<float> rows = {0.5f, 1.0f};
  const std::string message = make_update_message(keys, rows, 1, 8);
  EXPECT_EQ(message, std::string("HCTR\x04\0\0\0"
                                 "\x01\0\0\0\0\0\0\0\0\0\0\x3f"
                                 "\xfe\xff\xff\xff\xff\xff\xff\xff\0\0\x80\x3f",
                                 32));
  const UpdateRows update = parse_update_message(message, 8);
  EXPECT_EQ(update.keys, keys);
  EXPECT_EQ(update.rows, rows);
  EXPECT_EQ(update.dim, 1);
}

TEST(UpdateMessageTest, KeysMayHaveFourBytes) {
  const std::vector<int64_t> keys = {7, 0xffffffff};
  const std::vector<float> rows = {1, 2, 3, 4};
  const std::string message = make_update_message(keys, rows, 2, 4);
  EXPECT_EQ(message.size(), 8u + 2 * 12);
  EXPECT_EQ(parse_update_message(message, 4).keys, keys);
  EXPECT_THROW(make_update_message(std::vector<int64_t>{-1}, std::vector<float>{1}, 1, 4), Error);
  EXPECT_TRUE(parse_update_message(std::string("HCTR\x08\0\0\0", 8), 8).keys.empty());
}

TEST(UpdateMessageTest, WhatIsNoMessageIsRefused) {
  const std::string good =
      make_update_message(std::vector<int64_t>{1}, std::vector<float>{1, 2}, 2, 8);
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    if (bytes == 8) continue;  // a head alone is a message without rows
    EXPECT_THROW(parse_update_message(good.substr(0, bytes), 8), Error) << bytes;
  }
  EXPECT_THAT([&] { parse_update_message("XCTR" + good.substr(4), 8); },
              ThrowsMessage<Error>(HasSubstr("does not begin with HCTR")));
  EXPECT_THAT([&] { parse_update_message(std::string("HCTR\x03\0\0\0", 8), 8); },
              ThrowsMessage<Error>(HasSubstr("rows of 3 bytes")));
  EXPECT_THAT([&] { parse_update_message(std::string("HCTR\0\0\0\0", 8), 8); },
              ThrowsMessage<Error>(HasSubstr("rows of 0 bytes")));
  EXPECT_THAT([&] { parse_update_message(good, 4); },
              ThrowsMessage<Error>(HasSubstr("not a multiple of 12")));
  EXPECT_THROW(parse_update_message(std::string("HCTR\xfc\xff\xff\xff", 8) + "x", 8), Error);
}

}  // namespace
}  // namespace emblem
