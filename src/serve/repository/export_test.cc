#include "serve/repository/export.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "remote/remote_test.h"
#include "serve/repository/model_server.h"
#include "serve/repository/small_model_test.h"
#include "train/state/restored.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ExportTest : public testing::Test {
 protected:
  static void rename_a_table(const std::string& checkpoint) {
    update_manifest(checkpoint, [](Manifest& manifest) { manifest.tables[0].name = "../../evil"; });
  }

  SmallServedModel model_;
  const TempFolder folder_;
};

TEST_F(ExportTest, ACheckpointWhoseTableNamesArePathsIsRefusedAndNothingIsWritten) {
  rename_a_table(model_.checkpoint());
  const auto refused = ThrowsMessage<Error>(
      AllOf(HasSubstr("manifest.json is damaged"), HasSubstr("table name \"../../evil\"")));
  EXPECT_THAT([&] { export_model(model_.checkpoint(), folder_.path("out/ctr"), 0); }, refused);
  EXPECT_THAT([&] { RestoredModel({}, model_.checkpoint(), "", {}); }, refused);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(ExportTest, AServerRefusesAVersionWhoseTableNamesArePaths) {
  rename_a_table(model_.model_folder() + "/1");
  ModelServer server({.repository = model_.repository()});
  EXPECT_FALSE(server.is_ready());
  EXPECT_THAT([&] { server.metadata("ctr", ""); }, testing::Throws<Error>());
}

TEST_F(ExportTest, ACheckpointWithRowsThatAreNaNIsRefused) {
  const std::string name = open_checkpoint(model_.checkpoint()).manifest.tables[0].name;
  const std::string file = cat("tables/", name, "/emb_vector");
  const float nan = std::nanf("");
  std::fstream(model_.checkpoint() + "/" + file, std::ios::binary | std::ios::in | std::ios::out)
      .write(reinterpret_cast<const char*>(&nan), sizeof nan);
  update_manifest(model_.checkpoint(), [&](Manifest& manifest) {
    manifest.files[file] = facts_of_file(model_.checkpoint() + "/" + file);
  });
  EXPECT_THAT([&] { export_model(model_.checkpoint(), folder_.path("out/ctr"), 0); },
              ThrowsMessage<Error>(AllOf(HasSubstr("1 of "), HasSubstr("rows of table " + name),
                                         HasSubstr("NaN or infinite"))));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

// Its answers would be NaN, with status 200.
TEST_F(ExportTest, AServerRefusesAVersionWithParametersThatAreNaN) {
  const std::string version = model_.model_folder() + "/1", file = "dense.safetensors";
  const float nan = std::nanf("");
  {
    std::fstream dense(version + "/" + file, std::ios::binary | std::ios::in | std::ios::out);
    dense.seekp(-static_cast<int>(sizeof nan), std::ios::end);
    dense.write(reinterpret_cast<const char*>(&nan), sizeof nan);
  }
  update_manifest(version, [&](Manifest& manifest) {
    manifest.files[file] = facts_of_file(version + "/" + file);
  });
  ModelServer server({.repository = model_.repository()});
  EXPECT_FALSE(server.is_ready());
  EXPECT_THAT([&] { server.metadata("ctr", ""); },
              ThrowsMessage<Error>(HasSubstr("NaN or infinite")));
}

// The dense tensors of a checkpoint or of a version.
std::map<std::string, std::vector<float>> dense_tensors(const std::string& folder) {
  const SafetensorsFile file(folder + "/dense.safetensors");
  std::map<std::string, std::vector<float>> tensors;
  for (const TensorRef& tensor : file.tensors()) {
    std::vector<float>& values = tensors[tensor.name];
    values.resize(static_cast<size_t>(tensor.elements()));
    file.read<float>(tensor.name, values);
  }
  return tensors;
}

TEST_F(ExportTest, TheAverageOfDenseParametersIsServedUnlessToldOtherwise) {
  const std::string ema = "train_config.dense_optimizer.ema.decay=0.9";
  for (const bool off : {false, true}) {
    std::vector<std::string> changes = {ema};
    if (off) changes.push_back("export_config.use_dense_ema=false");
    const SmallServedModel model(changes);
    const auto saved = dense_tensors(model.checkpoint());
    const auto served = dense_tensors(model.model_folder() + "/1");
    ASSERT_FALSE(served.empty());
    for (const auto& [name, values] : served) {
      EXPECT_FALSE(name.starts_with("optimizer.")) << name;
      EXPECT_EQ(values, saved.at(off ? name : "optimizer.ema." + name)) << name;
    }
  }
}

TEST_F(ExportTest, AFolderThatCannotBeMadeIsNamed) {
  folder_.write("file", "");
  EXPECT_THAT([&] { export_model(model_.checkpoint(), folder_.path("file/ctr"), 0); },
              ThrowsMessage<Error>(
                  cat("cannot make the folder ", folder_.path("file/ctr"), ": Not a directory")));
}

class ExportToStoreTest : public RemoteFolderTest {
 protected:
  SmallServedModel model_;
};

// Two exports that write the same version would mix their files.
TEST_F(ExportToStoreTest, EveryRequestThatWritesNeedsTheLock) {
  Storage store;
  const auto prepare = [&] {
    all_.objects.clear();
    store = storage();
  };
  expect_no_write_without_lock("s3://b/models/ctr", prepare, [&] {
    export_model(model_.checkpoint(), "s3://b/models/ctr", 0, nullptr, store, lock_by_clock());
  });
}

}  // namespace
}  // namespace emblem
