// Saved indexes that somebody else has written: their checksums hold, whatever they say.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "core/math/checksum.h"
#include "core/math/random.h"
#include "retrieval/index.h"

namespace emblem {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFileDim = 4, kFileItems = 40;

// A saved index and changes of it.
class SavedIndex {
 public:
  explicit SavedIndex(DType type) {
    std::vector<int64_t> ids;
    std::vector<float> vectors;
    for (int64_t i = 0; i < kFileItems; ++i) {
      ids.push_back(i);
      for (int64_t k = 0; k < kFileDim; ++k)
        vectors.push_back(random_normal(1, 2, static_cast<uint64_t>(i * kFileDim + k)));
    }
    const std::vector<uint64_t> attributes(kFileItems, 1);
    Index::build({},
                 {.dim = kFileDim,
                  .dtype = type,
                  .kind = IndexKind::kIvfFlat,
                  .lists = 3,
                  .attributes = {"a"}},
                 {ids, {vectors.data(), kFileItems, kFileDim}, attributes})
        ->save(path());
    manifest_ = Json::parse(read_text_file(path() + "/manifest.json"));
    for (const auto& [name, facts] : manifest_["files"].items())
      files_[name] = read_text_file(path() + "/" + name);
  }

  // Writes it with some values of its manifest, and some bytes or sizes of its files, changed.
  void write_changed(Random& random) {
    Json manifest = manifest_;
    std::map<std::string, std::string> files = files_;
    for (uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
      if (random.below(2) == 0)
        change(manifest, random);
      else
        change(std::next(files.begin(), static_cast<int64_t>(random.below(files.size())))->second,
               random);
    }
    for (const auto& [name, content] : files) {
      folder_.write("index/" + name, content);
      if (!manifest["files"].is_object() || !manifest["files"][name].is_object()) continue;
      if (manifest["files"][name] != manifest_["files"][name]) continue;
      manifest["files"][name] = {
          {"bytes", content.size()},
          {"checksum", checksum_digits(checksum_of(content.data(), content.size()))}};
    }
    manifest["checksum"] = no_checksum();
    folder_.write("index/manifest.json", set_self_checksum(manifest.dump(1) + "\n"));
  }

  std::string path() const { return folder_.path("index"); }

 private:
  // Another value of a member, or of a member of a member.
  static void change(Json& manifest, Random& random) {
    static const Json kOthers = {-1,
                                 0,
                                 1,
                                 3,
                                 4,
                                 40,
                                 41,
                                 65'536,
                                 1ll << 31,
                                 INT64_MAX,
                                 INT64_MIN,
                                 1.5,
                                 1e300,
                                 "",
                                 "int8",
                                 "cosine",
                                 true,
                                 nullptr,
                                 Json::array(),
                                 Json::object(),
                                 Json::array({"a", "a"}),
                                 Json::array({7})};
    Json* at = &manifest;
    while (at->is_object() && !at->empty() && (at == &manifest || random.below(4) > 0))
      at = &std::next(at->begin(), static_cast<int64_t>(random.below(at->size()))).value();
    *at = kOthers[random.below(kOthers.size())];
  }

  static void change(std::string& content, Random& random) {
    switch (random.below(4)) {
      case 0:
        content.resize(random.below(2 * content.size() + 1), '\x7f');
        break;
      case 1:  // whole values
        for (int i = 0; i < 8 && content.size() >= 8; ++i)
          content[content.size() / 8 * 8 - 8 + static_cast<size_t>(i)] =
              static_cast<char>(random.below(2) * 255);
        break;
      default:
        if (!content.empty())
          content[random.below(content.size())] = static_cast<char>(random.below(256));
    }
  }

  const TempFolder folder_;
  Json manifest_;
  std::map<std::string, std::string> files_;
};

// Of another exception, an allocation of any size or a crash the test dies.
TEST(IndexFiles, WhateverAManifestSaysTheIndexIsRefusedOrCanBeSearched) {
  int loaded = 0, refused = 0;
  for (const DType type : {DType::kF32, DType::kInt8}) {
    SavedIndex saved(type);
    for (uint64_t seed = 0; seed < 400; ++seed) {
      SCOPED_TRACE(seed);
      Random random{seed};
      saved.write_changed(random);
      try {
        const auto index = Index::load({}, saved.path());
        const std::vector<float> query(static_cast<size_t>(index->settings().dim), 0.5f);
        const auto found =
            index->search({}, {query.data(), 1, std::ssize(query)}, {.k = 5, .probes = 2});
        ASSERT_EQ(found.size(), 1u);
        EXPECT_LE(std::ssize(found[0]), std::min<int64_t>(5, index->count()));
        ++loaded;
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find(saved.path()), std::string::npos) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(loaded, 10);
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace emblem
