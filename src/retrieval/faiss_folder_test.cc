// Folders of faiss that are written and read here. tests/faiss_test.py compares with faiss itself.
#include "retrieval/faiss_folder.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"
#include "retrieval/index_items_test.h"

namespace emblem {
namespace {

constexpr int64_t kFaissItems = 60;

class FaissFolderTest : public testing::TestWithParam<IndexKind> {
 protected:
  FaissFolderTest() {
    const GivenItems given(some_items(100, kFaissItems));
    index_ = Index::build({}, {.dim = kItemDim, .kind = GetParam(), .lists = 5, .probes = 2},
                          {.ids = given.ids, .vectors = given.items().vectors});
    write_faiss_folder(*index_, path());
    bytes_ = read_text_file(path() + "/faiss_index");
    mapping_ = read_text_file(path() + "/id_mapping");
  }

  std::string path() const { return folder_.path("faiss"); }
  std::string error_of(const std::string& bytes, const std::string& mapping) {
    folder_.write("faiss/faiss_index", bytes);
    folder_.write("faiss/id_mapping", mapping);
    try {
      read_faiss_folder(path());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const TempFolder folder_;
  std::unique_ptr<Index> index_;
  std::string bytes_, mapping_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, FaissFolderTest,
                         testing::Values(IndexKind::kFlat, IndexKind::kIvfFlat),
                         [](const auto& kind) { return std::string(name_of(kind.param)); });

TEST_P(FaissFolderTest, WhatIsWrittenIsReadWithTheSameListsAndFindsTheSame) {
  const FaissFolder read = read_faiss_folder(path());
  EXPECT_EQ(read.dim, kItemDim);
  const bool has_lists = GetParam() == IndexKind::kIvfFlat;
  EXPECT_EQ(read.lists.size(), has_lists ? 5u : 0u);
  const IndexSettings settings{
      .dim = kItemDim, .kind = GetParam(), .probes = has_lists ? read.probes : 16};
  const auto again = has_lists ? Index::build({}, settings, read.items(), read.item_lists())
                               : Index::build({}, settings, read.items());
  EXPECT_EQ(again->settings().probes, has_lists ? 2 : 16);
  for (int64_t q = 0; q < 20; ++q) {
    const std::vector<float> query = vector_of(q, 7);
    const View<const float> queries{query.data(), 1, kItemDim};
    EXPECT_EQ(ids_of(again->search({}, queries, {.k = 30})[0]),
              ids_of(index_->search({}, queries, {.k = 30})[0]));
  }
}

TEST_P(FaissFolderTest, AFileThatEndsTooEarlyIsRefusedWhereverItEnds) {
  for (size_t size = 0; size < bytes_.size(); size += size < 400 ? 1 : 37)
    EXPECT_NE(error_of(bytes_.substr(0, size), mapping_), "") << size;
  EXPECT_NE(error_of(bytes_ + "x", mapping_).find("too long"), std::string::npos);
  EXPECT_EQ(error_of(bytes_, mapping_), "");
}

// Of another exception, an allocation of any size or a crash the test dies.
TEST_P(FaissFolderTest, WhateverTheFirstNumbersSayTheFileIsReadOrRefusedInOneLine) {
  int refused = 0;
  for (size_t at = 0; at + 8 <= std::min<size_t>(bytes_.size(), 600); ++at) {
    for (const int64_t number : {INT64_MAX, INT64_MIN, int64_t{-1}, int64_t{1} << 40, int64_t{0}}) {
      std::string changed = bytes_;
      std::memcpy(changed.data() + at, &number, sizeof(number));
      const std::string error = error_of(changed, mapping_);
      EXPECT_EQ(error.find('\n'), std::string::npos) << error;
      refused += error.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 50);
}

TEST_P(FaissFolderTest, DamageIsNamed) {
  const auto expect = [&](const std::string& bytes, const std::string& mapping,
                          const std::string& words) {
    const std::string error = error_of(bytes, mapping);
    EXPECT_NE(error.find(words), std::string::npos) << error << ", expected " << words;
    EXPECT_NE(error.find(path()), std::string::npos) << error;
  };
  expect("IHNf" + bytes_.substr(4), mapping_, "has a faiss index of kind \"IHNf\"");
  std::string of_l2 = bytes_;
  of_l2[33] =
      1;  // the metric, after code, dim, count, two unused numbers and whether it is trained
  expect(of_l2, mapping_, "has metric 1 of faiss, expected 0");
  std::string of_nan = bytes_;
  of_nan.replace(of_nan.size() - 60 * 8 - 64, 4, "\xff\xff\xff\x7f", 4);
  if (GetParam() == IndexKind::kFlat) expect(of_nan, mapping_, "NaN or infinite elements");
  expect(bytes_, mapping_.substr(4), "id_mapping has 59 ids, but ");
  expect(bytes_, "x\n" + mapping_, "id_mapping, line 1 is \"x\", expected the id of an item");
  expect(bytes_, "100\n100\n", "id_mapping, line 2: duplicate item 100");
  std::filesystem::remove(path() + "/id_mapping");
  EXPECT_THROW(read_faiss_folder(path()), Error);
}

TEST(FaissFolder, ItemsWithoutAListAreNotWritten) {
  const TempFolder folder;
  const GivenItems given(some_items(1, 50)), more(some_items(51, 2));
  const auto index = Index::build({}, {.dim = kItemDim, .kind = IndexKind::kIvfFlat, .lists = 3},
                                  {.ids = given.ids, .vectors = given.items().vectors});
  index->add({}, {.ids = more.ids, .vectors = more.items().vectors});
  EXPECT_THROW(write_faiss_folder(*index, folder.path("faiss")), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.path("faiss")));
  index->rebuild({});
  write_faiss_folder(*index, folder.path("faiss"));
  EXPECT_EQ(read_faiss_folder(folder.path("faiss")).ids.size(), 52u);
}

}  // namespace
}  // namespace emblem
