#include "config/check/semantics.h"

#include <gmock/gmock.h>

#include "config/load/load.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

PipelineConfig user(const std::string& text) { return parse_pipeline(text, "user.config"); }

PipelineConfig stored(const std::string& text) {
  const TempFolder folder;
  folder.write("pipeline.config", text);
  return load_stored_pipeline(folder.path());
}

TEST(Semantics, APipelineOfAUserIsOfTheCurrentVersion) {
  EXPECT_EQ(semantics_of(user("")), Semantics{});
  EXPECT_EQ(semantics_of(user("data_config { fg_mode: FG_DAG }")).fg_mode, config::FG_DAG);
}

TEST(Semantics, AStoredPipelineWithoutARecordIsOfTheFirstVersion) {
  const Semantics old = semantics_of(stored("data_config { fg_mode: FG_NONE }"));
  EXPECT_EQ(old.fg_mode, config::FG_NORMAL) << "fg_mode had no effect";
  EXPECT_FALSE(old.fg_hash || old.default_after_normalizer || old.torcheasyrec_dcn ||
               old.strict_checks);
}

TEST(Semantics, AStoredPipelineKeepsItsMeaning) {
  for (const char* text :
       {"", "data_config { fg_mode: FG_DAG }", "data_config { fg_encoded: false }",
        "data_config { fg_encoded: true fg_mode: FG_DAG }", "semantics_version: 1"}) {
    const PipelineConfig config = user(text);
    const std::string written = to_stored_text(config);
    EXPECT_THAT(written, HasSubstr("semantics_version: "));
    EXPECT_EQ(semantics_of(stored(written)), semantics_of(config)) << text;
  }
  EXPECT_THAT(to_stored_text(user("")), HasSubstr("fg_mode: FG_NONE"));
}

TEST(Semantics, FgEncodedIsTheOlderSpelling) {
  EXPECT_EQ(semantics_of(user("data_config { fg_encoded: true fg_mode: FG_DAG }")).fg_mode,
            config::FG_NONE);
  EXPECT_EQ(semantics_of(user("data_config { fg_encoded: false }")).fg_mode, config::FG_DAG);
  EXPECT_EQ(semantics_of(user("data_config { fg_encoded: false fg_threads: 0 }")).fg_mode,
            config::FG_NORMAL);
}

TEST(Semantics, VersionsThatAreNotKnownAreRefused) {
  EXPECT_THAT([] { semantics_of(user("semantics_version: 3")); },
              ThrowsMessage<Error>(
                  "semantics_version is 3, this program knows 1 to 2; use a newer Emblem"));
  EXPECT_THAT([] { semantics_of(user("semantics_version: 0")); },
              ThrowsMessage<Error>("semantics_version is 0, this program knows 1 to 2"));
}

TEST(Semantics, TheCheckpointDecides) {
  PipelineConfig config = user("data_config { fg_mode: FG_NONE }");
  adopt_semantics(stored(""), "model.ckpt-1", &config);
  EXPECT_EQ(semantics_of(config), semantics_of(stored("")));

  const PipelineConfig dag = stored("semantics_version: 2 data_config { fg_mode: FG_DAG }");
  config = user("data_config { fg_mode: FG_DAG }");
  adopt_semantics(dag, "model.ckpt-1", &config);
  EXPECT_EQ(semantics_of(config), semantics_of(dag));
}

TEST(Semantics, APipelineThatContradictsTheCheckpointIsRefused) {
  const auto adopt = [](const std::string& checkpoint, const std::string& text) {
    PipelineConfig config = user(text);
    adopt_semantics(stored(checkpoint), "model.ckpt-1", &config);
  };
  EXPECT_THAT([&] { adopt("semantics_version: 2 data_config { fg_mode: FG_DAG }", ""); },
              ThrowsMessage<Error>(
                  "model.ckpt-1 was trained with fg_mode FG_DAG, but the pipeline has FG_NONE; "
                  "set data_config { fg_mode: FG_DAG }"));
  EXPECT_THAT(
      [&] { adopt("", "semantics_version: 2"); },
      ThrowsMessage<Error>("model.ckpt-1 was trained with semantics_version 1, not 2; remove "
                           "semantics_version from the pipeline"));
}

TEST(Semantics, OverridesDoNotChangeARecord) {
  const TempFolder folder;
  folder.write("pipeline.config", "");
  const std::vector<std::string> newer = {"semantics_version=2"},
                                 mode = {"data_config.fg_mode=FG_DAG"};
  EXPECT_THAT(
      [&] { load_stored_pipeline(folder.path(), newer); },
      ThrowsMessage<Error>(HasSubstr("has semantics_version 1, which cannot be changed to 2")));
  EXPECT_EQ(load_stored_pipeline(folder.path(), mode).semantics_version(), 1u);
}

TEST(Semantics, ColumnsKeepTheTypesOfTheCheckpoint) {
  PipelineConfig config = user("data_config { column_types { input_name: 'other' } }");
  adopt_semantics(stored("semantics_version: 2 data_config { column_types { input_name: 'id' "
                         "input_type: INT64 } }"),
                  "model.ckpt-1", &config);
  ASSERT_EQ(config.data_config().column_types_size(), 1);
  EXPECT_EQ(config.data_config().column_types(0).input_name(), "id");
}

TEST(Semantics, TablesKeepTheRowsOfTheCheckpoint) {
  config::PipelineConfig stored, given;
  stored.mutable_train_config()->set_divide_tables(10);
  adopt_semantics(stored, "ckpt", &given);
  EXPECT_EQ(given.train_config().divide_tables(), 10u);
  given.mutable_train_config()->set_divide_tables(7);
  EXPECT_THAT([&] { adopt_semantics(stored, "ckpt", &given); },
              testing::ThrowsMessage<Error>("ckpt was trained with divide_tables 10, not 7; give "
                                            "--divide-tables 10 or none"));
}

}  // namespace
}  // namespace emblem
