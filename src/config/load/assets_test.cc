#include "config/load/assets.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Assets : public testing::Test {
 protected:
  PipelineConfig pipeline(const std::string& settings) {
    return parse_pipeline("feature_configs { id_feature { feature_name: 'a' " + settings + " } }",
                          "test");
  }

  TempFolder folder_;
};

TEST_F(Assets, HaveNamesThatFollowFromTheirContent) {
  const std::string path = folder_.write("words.txt", "x\ny\n");
  PipelineConfig config = pipeline("vocab_file: '" + path + "'");
  const std::vector<Asset> assets = take_assets(&config);
  ASSERT_EQ(assets.size(), 1u);
  EXPECT_EQ(assets[0].content, "x\ny\n");
  EXPECT_THAT(assets[0].name, testing::MatchesRegex("assets/[0-9a-f]{16}_words.txt"));
  EXPECT_EQ(config.feature_configs(0).id_feature().vocab_file(), assets[0].name);

  PipelineConfig elsewhere =
      pipeline("vocab_file: 'words.txt' asset_dir: '" + folder_.path() + "'");
  EXPECT_EQ(take_assets(&elsewhere)[0].name, assets[0].name) << "wherever the file is";
  EXPECT_FALSE(elsewhere.feature_configs(0).id_feature().has_asset_dir());

  folder_.write("words.txt", "y\nx\n");
  PipelineConfig changed = pipeline("vocab_file: '" + path + "'");
  EXPECT_NE(take_assets(&changed)[0].name, assets[0].name);
}

TEST_F(Assets, OfSequencesAndTokenizersAreFoundOnce) {
  const std::string words = folder_.write("words.txt", "x\n");
  folder_.write("t.json", "{}");
  folder_.write("stop.txt", "!");
  PipelineConfig config = parse_pipeline(
      cat("feature_configs { id_feature { feature_name: 'a' vocab_file: '", words, "' } } ",
          "feature_configs { sequence_feature { sequence_name: 's' features { id_feature { "
          "feature_name: 'a' vocab_file: '",
          words, "' } } } } feature_configs { tokenize_feature { feature_name: 't' asset_dir: '",
          folder_.path(),
          "' vocab_file: 't.json' text_normalizer { stop_char_file: 'stop.txt' } } }"),
      "test");
  std::vector<std::string> contents;
  for (const Asset& asset : take_assets(&config)) contents.push_back(asset.content);
  EXPECT_THAT(contents, ElementsAre("x\n", "{}", "!"));
}

TEST_F(Assets, AreFoundBesideAStoredPipeline) {
  const std::string path = folder_.write("words.txt", "x\n");
  PipelineConfig config = pipeline("vocab_file: '" + path + "'");
  const std::vector<Asset> assets = take_assets(&config);
  folder_.write("pipeline.config", to_stored_text(config));
  folder_.write(assets[0].name, assets[0].content);
  remove_path(path);
  PipelineConfig stored = load_stored_pipeline(folder_.path());
  EXPECT_EQ(stored.feature_configs(0).id_feature().vocab_file(),
            folder_.path() + "/" + assets[0].name);
  EXPECT_EQ(take_assets(&stored)[0].name, assets[0].name) << "a copy of a copy has the same name";
}

TEST_F(Assets, OfOtherPathsStayAsTheyAre) {
  PipelineConfig config = pipeline("vocab_file: 'assets/words.txt'");
  find_assets("/folder", &config);
  EXPECT_EQ(config.feature_configs(0).id_feature().vocab_file(), "assets/words.txt");
  EXPECT_THAT([&] { take_assets(&config); }, ThrowsMessage<Error>(HasSubstr("assets/words.txt")));
}

TEST_F(Assets, LieInTheFolderOfTheCheckpoint) {
  for (const std::string name : {"assets/0123456789abcdef_/../../../etc/passwd",
                                 "assets/0123456789abcdef_x/y", "assets/0123456789abcdef_..\\x"}) {
    PipelineConfig config = pipeline("");
    config.mutable_feature_configs(0)->mutable_id_feature()->set_vocab_file(name);
    find_assets("/folder", &config);
    EXPECT_EQ(config.feature_configs(0).id_feature().vocab_file(), name) << "no path in the folder";
  }
}

TEST_F(Assets, OfFilesWithOddNamesAreFound) {
  PipelineConfig config = pipeline("");
  config.mutable_feature_configs(0)->mutable_id_feature()->set_vocab_file(
      folder_.write("wo\\r\nds.txt", "x\n"));
  const std::vector<Asset> assets = take_assets(&config);
  EXPECT_THAT(assets[0].name, testing::EndsWith("_wo_r_ds.txt"));
  find_assets("/folder", &config);
  EXPECT_EQ(config.feature_configs(0).id_feature().vocab_file(), "/folder/" + assets[0].name);
}

}  // namespace
}  // namespace emblem
