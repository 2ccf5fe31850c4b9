#include "embedding/files/delta_files.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

TEST(DeltaFilesTest, ADeltaAppearsWholeAndSaysWhatItHolds) {
  TempFolder folder;
  const std::string root = folder.path("deltas");
  EXPECT_THAT(list_deltas(root), IsEmpty());
  DeltaWriter writer(root, 12);
  writer.add("users", 2, std::vector<int64_t>{5}, std::vector<float>{1, 2});
  writer.add("users", 2, std::vector<int64_t>{6}, std::vector<float>{3, 4});
  writer.add("items", 1, std::vector<int64_t>{7}, std::vector<float>{5});
  EXPECT_THAT(list_deltas(root), IsEmpty());  // not yet
  EXPECT_EQ(writer.finish(), root + "/delta-000000000012");
  const auto deltas = list_deltas(root);
  ASSERT_EQ(deltas.size(), 1u);
  const DeltaManifest manifest = read_delta_manifest(deltas[0]);
  EXPECT_EQ(manifest.sequence, 12);
  EXPECT_GT(manifest.created_unix_ms, 1600000000000);
  ASSERT_EQ(manifest.tables.size(), 2u);
  EXPECT_EQ(manifest.tables[1].name, "users");
  EXPECT_EQ(manifest.tables[1].dim, 2);
  EXPECT_EQ(manifest.tables[1].rows, 2);
  EXPECT_EQ(std::filesystem::file_size(deltas[0].path + "/users/key"), 16u);
  EXPECT_EQ(std::filesystem::file_size(deltas[0].path + "/users/emb_vector"), 16u);
}

// Reads all that a server reads.
void check(const DeltaFolder& delta) {
  for (const DeltaTable& table : read_delta_manifest(delta).tables) check_delta_table(delta, table);
}

TEST(DeltaFilesTest, AFlippedBitInAnyFileIsNoticed) {
  TempFolder folder;
  DeltaWriter writer(folder.path(), 1);
  writer.add("users", 2, std::vector<int64_t>{5, 6}, std::vector<float>{1, 2, 3, 4});
  writer.finish();
  const DeltaFolder delta = list_deltas(folder.path())[0];
  EXPECT_NO_THROW(check(delta));
  for (const std::string name : {"manifest.json", "users/key", "users/emb_vector"}) {
    const std::string path = delta.path + "/" + name;
    const std::string whole = read_text_file(path);
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      std::ofstream(path, std::ios::binary) << damaged;
      try {
        check(delta);
        ADD_FAILURE() << name << ", bit " << bit;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCorruption) << error.what();
      }
    }
    std::ofstream(path, std::ios::binary) << whole;
  }
  EXPECT_NO_THROW(check(delta));
}

TEST(DeltaFilesTest, DeltasThatWereWrittenWithoutChecksumsAreRead) {
  TempFolder folder;
  folder.write("delta-000000000001/manifest.json",
               R"({"sequence": 1, "created_unix_ms": 5,
                   "tables": [{"name": "users", "dim": 2, "rows": 1}]})");
  const DeltaFolder delta = list_deltas(folder.path())[0];
  const DeltaManifest manifest = read_delta_manifest(delta);
  ASSERT_EQ(manifest.tables.size(), 1u);
  EXPECT_FALSE(manifest.tables[0].checksums.has_value());
  EXPECT_NO_THROW(check(delta));
}

TEST(DeltaFilesTest, RowsThatAreNaNOrInfiniteAreNotWritten) {
  TempFolder folder;
  const float nan = std::nanf(""), infinite = std::numeric_limits<float>::infinity();
  DeltaWriter writer(folder.path(), 1);
  EXPECT_EQ(writer.add("users", 2, std::vector<int64_t>{1, 2, 3, 4},
                       std::vector<float>{1, nan, 2, 3, -infinite, 0, 4, 5}),
            2);
  writer.finish();
  const DeltaFolder delta = list_deltas(folder.path())[0];
  EXPECT_EQ(read_delta_manifest(delta).tables[0].rows, 2);
  const std::string keys = read_text_file(delta.path + "/users/key");
  EXPECT_EQ(keys[0], 2);
  EXPECT_EQ(keys[8], 4);
}

TEST(DeltaFilesTest, AreListedByNumberAndOthersSkipped) {
  TempFolder folder;
  for (const int64_t sequence : {int64_t{11}, int64_t{2}, int64_t{1000000000000000}}) {
    DeltaWriter(folder.path(), sequence).finish();
  }
  folder.write("delta-", "");
  folder.write("delta-12x", "");
  { DeltaWriter abandoned(folder.path(), 3); }
  const auto deltas = list_deltas(folder.path());
  ASSERT_EQ(deltas.size(), 3u);
  EXPECT_EQ(deltas[0].sequence, 2);
  EXPECT_EQ(deltas[1].sequence, 11);
  EXPECT_EQ(deltas[2].sequence, 1000000000000000);
  EXPECT_FALSE(std::filesystem::exists(folder.path(".writing-delta-000000000003")));
}

TEST(DeltaFilesTest, OldOnesAreRemovedWithWhatAKilledProcessLeft) {
  TempFolder folder;
  for (int64_t sequence = 1; sequence <= 5; ++sequence) {
    DeltaWriter writer(folder.path(), sequence);
    writer.add("users", 1, std::vector<int64_t>{5}, std::vector<float>{1});
    writer.finish();
  }
  folder.write(".removing-delta-000000000000/users/key", "");
  remove_deltas(folder.path(), 3);
  const auto deltas = list_deltas(folder.path());
  ASSERT_EQ(deltas.size(), 2u);
  EXPECT_EQ(deltas[0].sequence, 4);
  EXPECT_FALSE(std::filesystem::exists(folder.path(".removing-delta-000000000000")));
  EXPECT_FALSE(std::filesystem::exists(folder.path(".removing-delta-000000000001")));
  remove_deltas(folder.path("nothing"), 3);
}

TEST(DeltaFilesTest, AFolderThatCannotBeReadIsNotAnEmptyOne) {
  TempFolder folder;
  folder.write("file", "");
  EXPECT_THAT([&] { list_deltas(folder.path("file")); },
              ThrowsMessage<Error>(HasSubstr("cannot read the folder")));
}

TEST(DeltaFilesTest, FoldersThatCannotBeMadeAreNamedInOneLine) {
  TempFolder folder;
  folder.write("file", "");
  EXPECT_THAT([&] { DeltaWriter(folder.path("file/deltas"), 1); },
              ThrowsMessage<Error>(HasSubstr(": Not a directory")));
}

TEST(DeltaFilesTest, TableNamesThatLeadOutOfADeltaAreRefused) {
  TempFolder folder;
  for (const char* name : {"../../users", "a/b", ".users", "..", "/users", "users/", ""}) {
    folder.write("delta-000000000001/manifest.json",
                 cat(R"({"sequence": 1, "created_unix_ms": 1, "tables": [{"name": ")", name,
                     R"(", "dim": 1, "rows": 1}]})"));
    EXPECT_THAT([&] { read_delta_manifest(list_deltas(folder.path())[0]); },
                ThrowsMessage<Error>(HasSubstr(cat("table name \"", name, "\" is not valid"))));
  }
}

TEST(DeltaFilesTest, WhatCannotBeADeltaIsRefused) {
  TempFolder folder;
  EXPECT_THROW(DeltaWriter(folder.path(), 0), Error);
  DeltaWriter(folder.path(), 9).finish();
  EXPECT_THAT([&] { DeltaWriter(folder.path(), 9); },
              ThrowsMessage<Error>(HasSubstr("exists already")));
  DeltaWriter writer(folder.path(), 1);
  const std::vector<int64_t> key = {1};
  EXPECT_THAT([&] { writer.add("../x", 1, key, std::vector<float>{1}); },
              ThrowsMessage<Error>(HasSubstr("cannot be the name of a folder")));
  EXPECT_THAT([&] { writer.add("t", 2, key, std::vector<float>{1}); },
              ThrowsMessage<Error>(HasSubstr("do not fit 1 floats")));
  writer.add("t", 1, key, std::vector<float>{1});
  EXPECT_THAT(
      [&] {
        writer.add("t", 2, key, std::vector<float>{1, 2});
      },
      ThrowsMessage<Error>(HasSubstr("rows of dimension 2 after")));
  folder.write("delta-7/manifest.json", "{}");
  EXPECT_THAT(
      [&] {
        read_delta_manifest({7, folder.path("delta-7")});
      },
      ThrowsMessage<Error>(HasSubstr("does not describe a delta")));
  folder.write("delta-7/manifest.json", R"({"sequence": 8, "created_unix_ms": 1, "tables": []})");
  EXPECT_THAT(
      [&] {
        read_delta_manifest({7, folder.path("delta-7")});
      },
      ThrowsMessage<Error>(HasSubstr("the sequence is 8")));
}

}  // namespace
}  // namespace emblem
