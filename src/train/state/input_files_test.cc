#include "train/state/input_files.h"

#include <gtest/gtest.h>

#include "core/files/temp_folder_test.h"

namespace emblem {
namespace {

config::PipelineConfig config_of(const std::string& input) {
  config::PipelineConfig config;
  config.set_train_input_path(input);
  return config;
}

TEST(InputFiles, AreOtherOnesWhereNameSizeOrContentDiffer) {
  const TempFolder folder;
  const std::string content(200'000, 'x');
  folder.write("a/one", content);
  const InputFiles then = *input_files_of(config_of(folder.path("a")), nullptr);
  const auto is_other = [&](const std::string& name, const std::string& now) {
    const TempFolder moved;
    moved.write(name, now);
    return are_other_files(then, *input_files_of(config_of(moved.path()), nullptr));
  };
  EXPECT_FALSE(is_other("one", content)) << "in another folder";
  EXPECT_TRUE(is_other("two", content));
  EXPECT_TRUE(is_other("one", content + "x"));
  EXPECT_TRUE(is_other("one", "y" + content.substr(1)));
  EXPECT_TRUE(is_other("one", content.substr(1) + "y"));
}

TEST(InputFiles, WhatAnOlderProgramHasNotStoredIsNotCompared) {
  const InputFiles then{.files = 1, .bytes = 2, .names = 3};
  InputFiles now = then;
  now.content = 4;
  EXPECT_FALSE(are_other_files(then, now));
  InputFiles other = now;
  other.content = 5;
  EXPECT_TRUE(are_other_files(now, other));
}

}  // namespace
}  // namespace emblem
