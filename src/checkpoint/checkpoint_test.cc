#include "checkpoint/checkpoint.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "checkpoint/checkpoint_test.h"
#include "checkpoint/names.h"
#include "core/files/file.h"
#include "core/files/output_file.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class CheckpointTest : public ModelDirTest {
 protected:
  auto opening(const std::string& path) {
    return [path] { open_checkpoint(path); };
  }
  std::string hidden(CheckpointState state, int64_t step, int64_t process) const {
    return dir_ + "/" + CheckpointName{state, step, process}.text();
  }
  static void change_byte(const std::string& path, uint64_t at, char difference) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const char old = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(old ^ difference));
  }
  static constexpr int64_t kNoProcess = 0x7ffffff0;  // beyond any process number
};

TEST_F(CheckpointTest, IsADirectoryWithAManifestOfItsFiles) {
  const std::string path = write_sample(dir_, 1200);
  EXPECT_EQ(path, dir_ + "/model.ckpt-1200");
  EXPECT_THAT(names(), ElementsAre("model.ckpt-1200"));
  const Checkpoint checkpoint = open_checkpoint(path);
  EXPECT_EQ(checkpoint.path, path);
  EXPECT_EQ(checkpoint.manifest.step, 1200);
  EXPECT_EQ(checkpoint.manifest.model, "dlrm");
  EXPECT_EQ(checkpoint.manifest.files.size(), 5u);
  EXPECT_EQ(checkpoint.manifest.files.at("tables/user/emb_vector"),
            facts_of_file(checkpoint.file("tables/user/emb_vector")));
}

TEST_F(CheckpointTest, TakesFilesThatOthersWrote) {
  CheckpointWriter writer(dir_, 1);
  fs::create_directories(writer.path() + "/tables/a");
  FileWriter file(writer.path() + "/tables/a/key");
  file.write("12345678");
  file.finish();
  writer.add_file("tables/a/key", {file.bytes_written(), file.checksum()});
  const std::string path = writer.commit({});
  EXPECT_EQ(read_text_file(path + "/tables/a/key"), "12345678");
  open_checkpoint(path);
}

TEST_F(CheckpointTest, RefusesFilesThatAreNotAsRegistered) {
  CheckpointWriter writer(dir_, 1);
  writer.write_file("a", "content");
  EXPECT_THAT([&] { writer.add_file("a", {}); },
              ThrowsMessage<Error>(HasSubstr("file a is in the checkpoint already")));
  writer.add_file("b", {.bytes = 3});
  EXPECT_THAT([&] { writer.commit({}); },
              ThrowsMessage<Error>(HasSubstr("file b of the checkpoint should have 3 bytes")));
}

TEST_F(CheckpointTest, WithoutCommitNothingRemains) {
  {
    CheckpointWriter writer(dir_, 7);
    writer.write_file("tables/a/key", "content");
    EXPECT_EQ(names().size(), 1u);
    EXPECT_EQ(latest_checkpoint(dir_), std::nullopt);
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(CheckpointTest, TheSameStepReplacesTheOldOne) {
  write_sample(dir_, 5, /*seed=*/1);
  const auto first = open_checkpoint(dir_).manifest.files;
  write_sample(dir_, 5, /*seed=*/2);
  EXPECT_NE(open_checkpoint(dir_).manifest.files, first);
  EXPECT_THAT(names(), ElementsAre("model.ckpt-5"));
}

TEST_F(CheckpointTest, LatestIsTheHighestStepNotTheLastName) {
  for (const int64_t step : {9, 1000, 200}) write_sample(dir_, step);
  EXPECT_EQ(latest_checkpoint(dir_), dir_ + "/model.ckpt-1000");
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : list_checkpoints(dir_)) steps.push_back(entry.step);
  EXPECT_THAT(steps, ElementsAre(9, 200, 1000));
}

TEST_F(CheckpointTest, LatestSkipsWhatIsNotACheckpoint) {
  write_sample(dir_, 100);
  fs::create_directories(dir_ + "/model.ckpt-900");   // no manifest
  fs::create_directories(dir_ + "/model.ckpt-901x");  // another name
  write_text_file_atomically(dir_ + "/model.ckpt-902", "a file");
  fs::copy(dir_ + "/model.ckpt-100", dir_ + "/model.ckpt-903",
           fs::copy_options::recursive);  // says it is step 100
  fs::copy(dir_ + "/model.ckpt-100", hidden(CheckpointState::kUnfinished, 904, ::getpid()),
           fs::copy_options::recursive);
  write_sample(dir_ + "/deeper", 905);
  fs::create_directories(dir_ + "/model.ckpt-906");
  write_text_file_atomically(dir_ + "/model.ckpt-906/manifest.json", "{damaged");
  EXPECT_EQ(latest_checkpoint(dir_), dir_ + "/model.ckpt-100");
  EXPECT_EQ(latest_checkpoint(dir_ + "/nowhere"), std::nullopt);
}

TEST_F(CheckpointTest, ADamagedManifestIsMentionedWithWhatIsUsedInstead) {
  write_sample(dir_, 1);
  for (const int64_t step : {2, 3})
    change_byte(write_sample(dir_, step) + "/manifest.json", 200, 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(find_checkpoint(dir_), dir_ + "/model.ckpt-1");
  const std::string log = testing::internal::GetCapturedStderr();
  for (const char* step : {"2", "3"}) {
    EXPECT_THAT(log, testing::ContainsRegex(cat("warning: checkpoint [^\n]*/model.ckpt-", step,
                                                " is skipped: [^\n]*manifest.json is damaged"
                                                "[^\n]*; using [^\n]*/model.ckpt-1\n")));
  }
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2);
}

TEST_F(CheckpointTest, ADamagedCheckpointCountsAsOne) {
  EXPECT_FALSE(holds_checkpoints(dir_));
  change_byte(write_sample(dir_, 3) + "/manifest.json", 200, 1);
  EXPECT_TRUE(holds_checkpoints(dir_));
}

TEST_F(CheckpointTest, TheManifestOfAFinishedOneCanChange) {
  const std::string path = write_sample(dir_, 5);
  const Manifest before = open_checkpoint(path).manifest;
  update_manifest(path, [](Manifest& manifest) { manifest.metrics = {{"auc", 0.75}}; });
  const Manifest after = open_checkpoint(path).manifest;
  EXPECT_EQ(after.metrics.at("auc"), 0.75);
  EXPECT_EQ(after.step, 5);
  EXPECT_EQ(after.files, before.files);
}

TEST_F(CheckpointTest, AModelDirStandsForItsLatestCheckpoint) {
  write_sample(dir_, 1);
  const std::string path = write_sample(dir_, 2);
  EXPECT_EQ(find_checkpoint(dir_), path);
  EXPECT_EQ(find_checkpoint(dir_ + "/"), path);
  EXPECT_EQ(find_checkpoint(dir_ + "/model.ckpt-1/"), dir_ + "/model.ckpt-1");
  EXPECT_EQ(open_checkpoint(dir_).manifest.step, 2);
}

TEST_F(CheckpointTest, SaysWhatIsNoCheckpoint) {
  EXPECT_THAT(opening(dir_), ThrowsMessage<Error>(AllOf(HasSubstr("there is no checkpoint"),
                                                        HasSubstr("no such folder"))));
  fs::create_directories(dir_ + "/other");
  EXPECT_THAT(opening(dir_),
              ThrowsMessage<Error>(HasSubstr(
                  "is not an emblem checkpoint (it has no manifest.json) and holds none")));
  write_text_file_atomically(dir_ + "/manifest.json", "{\"name\": \"a web app\"}");
  EXPECT_THAT(opening(dir_),
              ThrowsMessage<Error>(HasSubstr("is not the manifest of an emblem checkpoint")));
}

TEST_F(CheckpointTest, SaysWhyNoneOfAModelDirCanBeUsed) {
  const std::string path = write_sample(dir_, 3);
  change_byte(path + "/manifest.json", 200, 1);
  EXPECT_THAT(opening(dir_),
              ThrowsMessage<Error>(AllOf(HasSubstr("no checkpoint in"),
                                         HasSubstr("model.ckpt-3/manifest.json is damaged"))));
}

TEST_F(CheckpointTest, NamesTheFileThatIsDamaged) {
  const std::string path = write_sample(dir_, 3);
  const std::string name = "tables/user/emb_vector";
  change_byte(path + "/" + name, 1234, 4);
  EXPECT_THAT(opening(path),
              ThrowsMessage<Error>(AllOf(HasSubstr("checkpoint " + path + " is damaged"),
                                         HasSubstr("the checksum of file " + name))));
  EXPECT_NO_THROW(open_checkpoint(path, Verify::kSizes));
  fs::resize_file(path + "/" + name, 3999);
  EXPECT_THAT(opening(path),
              ThrowsMessage<Error>(HasSubstr(
                  "file " + name + " has 3999 bytes, but 4000 were written (truncated)")));
  EXPECT_THROW(open_checkpoint(path, Verify::kSizes), Error);
  fs::remove(path + "/" + name);
  EXPECT_THAT(opening(path), ThrowsMessage<Error>(HasSubstr("file " + name + " is missing")));
}

TEST_F(CheckpointTest, NoticesRandomDamageAnywhere) {
  const std::string path = write_sample(dir_, 3);
  std::vector<std::string> files = {"manifest.json"};
  for (const auto& [name, facts] : open_checkpoint(path).manifest.files) {
    if (facts.bytes > 0) files.push_back(name);
  }
  Random random{12};
  for (int trial = 0; trial < 300; ++trial) {
    const std::string file = path + "/" + files[random.below(files.size())];
    const uint64_t at = random.below(fs::file_size(file));
    const char difference = static_cast<char>(1 + random.below(255));
    change_byte(file, at, difference);
    EXPECT_THROW(open_checkpoint(path), Error) << file << " at " << at;
    change_byte(file, at, difference);
  }
  open_checkpoint(path);  // all changes were undone
}

TEST_F(CheckpointTest, TheNextWriterRemovesWhatDeadOnesLeft) {
  write_sample(dir_, 1);
  for (const int64_t process :
       {kNoProcess, static_cast<int64_t>(::getpid()), static_cast<int64_t>(::getppid())}) {
    fs::create_directories(hidden(CheckpointState::kUnfinished, 50, process) + "/tables");
  }
  write_sample(dir_, 2);
  // The parent process lives: what it writes is left alone.
  EXPECT_THAT(names(),
              ElementsAre(CheckpointName{CheckpointState::kUnfinished, 50, ::getppid()}.text(),
                          "model.ckpt-1", "model.ckpt-2"));
}

TEST_F(CheckpointTest, LeftoversOfDeadProcessesAreRemoved) {
  const std::string path = write_sample(dir_, 1);
  fs::create_directories(hidden(CheckpointState::kUnfinished, 50, kNoProcess) + "/tables");
  for (const std::string& text :
       {cat(dir_, "/.pipeline.config.partial.", kNoProcess),
        cat(path, "/.manifest.json.partial.", kNoProcess),
        cat(dir_, "/.train_log.jsonl.partial.", ::getppid()), dir_ + "/.notes.partial.x"})
    write_text_file_atomically(text, "");
  remove_leftovers(dir_);
  // The parent process lives, and the last name is not one of ours.
  EXPECT_THAT(names(), ElementsAre(".notes.partial.x",
                                   cat(".train_log.jsonl.partial.", ::getppid()), "model.ckpt-1"));
  EXPECT_FALSE(fs::exists(cat(path, "/.manifest.json.partial.", kNoProcess)));
  open_checkpoint(path);
}

TEST_F(CheckpointTest, AFileThatAKilledProcessBeganIsRemoved) {
  fs::create_directories(dir_);
  const pid_t writer = ::fork();
  if (writer == 0) {
    OutputFile file(dir_ + "/train_eval_result.jsonl");
    file.write("{}");
    ::_exit(0);  // as when killed: nothing is cleaned up
  }
  ASSERT_EQ(::waitpid(writer, nullptr, 0), writer);
  EXPECT_EQ(names().size(), 1u);
  remove_leftovers(dir_);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(CheckpointTest, ADeathBetweenTheTwoRenamesOfAReplacementLosesNothing) {
  const std::string path = write_sample(dir_, 8);
  const std::string replaced = hidden(CheckpointState::kReplaced, 8, kNoProcess);
  fs::rename(path, replaced);
  EXPECT_EQ(latest_checkpoint(dir_), replaced);
  open_checkpoint(dir_);
  write_sample(dir_, 9);
  EXPECT_THAT(names(), ElementsAre("model.ckpt-8", "model.ckpt-9"));
  open_checkpoint(path);
}

TEST_F(CheckpointTest, PruningKeepsTheNewestAndTheSpared) {
  for (const int64_t step : {1, 2, 3, 4, 5}) write_sample(dir_, step);
  const std::vector<int64_t> spared = {2, 5};
  prune_checkpoints(dir_, 0, spared);
  EXPECT_EQ(names().size(), 5u);
  prune_checkpoints(dir_, 3, spared);
  EXPECT_THAT(names(), ElementsAre("model.ckpt-2", "model.ckpt-3", "model.ckpt-4", "model.ckpt-5"));
  prune_checkpoints(dir_, 1, spared);
  EXPECT_THAT(names(), ElementsAre("model.ckpt-2", "model.ckpt-5"));
}

TEST(CheckpointName, SurvivesTheWayThroughText) {
  for (const CheckpointState state :
       {CheckpointState::kFinished, CheckpointState::kUnfinished, CheckpointState::kReplaced}) {
    const CheckpointName name{state, 1234567890123, state == CheckpointState::kFinished ? 0 : 42};
    const auto read = parse_checkpoint_name(name.text());
    ASSERT_TRUE(read) << name.text();
    EXPECT_EQ(read->state, state);
    EXPECT_EQ(read->step, name.step);
    EXPECT_EQ(read->process, name.process);
  }
}

TEST(CheckpointName, IsNotAnyName) {
  for (const char* text : {"", "model.ckpt-", "model.ckpt-x", "model.ckpt--1", "model.ckpt-1.bak",
                           "xmodel.ckpt-1", "model.ckpt-99999999999999999999", ".tmp-model.ckpt-1",
                           ".tmp-model.ckpt-1-", "events.out"}) {
    EXPECT_FALSE(parse_checkpoint_name(text)) << text;
  }
}

}  // namespace
}  // namespace emblem
