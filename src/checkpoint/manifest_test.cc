#include "checkpoint/manifest.h"

#include <cmath>

#include "checkpoint/checkpoint_test.h"
#include "core/math/checksum.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Manifest whole_manifest() {
  Manifest manifest = sample_manifest();
  manifest.step = 1234;
  manifest.files = {{"tables/user/key", {24, 0xfedcba9876543210ull}},
                    {"tables/user/emb_vector", {48, 0}},
                    {"dense.safetensors", {0, 1}}};
  return manifest;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

auto parsing(const std::string& text) {
  return [text] { parse_manifest(text, "DIR/manifest.json"); };
}

TEST(Manifest, SurvivesTheWayThroughText) {
  Manifest manifest = whole_manifest();
  manifest.input_files = InputFiles{.files = 2, .bytes = 30, .names = 7};
  manifest.sampler_files = InputFiles{.files = 1, .bytes = 9, .names = 8, .content = 1ull << 63};
  const Manifest read = parse_manifest(manifest_text(manifest), "m");
  EXPECT_EQ(read.emblem_version, kVersion);
  EXPECT_EQ(read.step, 1234);
  EXPECT_EQ(read.epoch, 2);
  EXPECT_EQ(read.model, "dlrm");
  ASSERT_EQ(read.parameters.size(), 2u);
  EXPECT_EQ(read.parameters[0].name, "top/0/weight");
  EXPECT_THAT(read.parameters[0].shape, ElementsAre(16, 4));
  ASSERT_EQ(read.tables.size(), 1u);
  EXPECT_EQ(read.tables[0].name, "user");
  EXPECT_EQ(read.tables[0].kind, "dynamic");
  EXPECT_EQ(read.tables[0].dim, 4);
  EXPECT_EQ(read.tables[0].dtype, "bf16");
  EXPECT_EQ(read.tables[0].rows, 3);
  EXPECT_EQ(read.tables[0].optimizer, "adagrad");
  EXPECT_THAT(read.tables[0].files, ElementsAre("tables/user/key", "tables/user/emb_vector"));
  EXPECT_EQ(read.position.epoch, 2);
  EXPECT_EQ(read.position.piece, 3);
  EXPECT_EQ(read.position.row, 4);
  EXPECT_EQ(read.position.emitted, 5);
  EXPECT_EQ(read.position.rows_in_epoch, 6);
  EXPECT_EQ(read.position.stream, manifest.position.stream);
  EXPECT_EQ(read.schedules.at("dense").best, 0.1);
  EXPECT_TRUE(read.schedules.at("dense").has_best);
  EXPECT_EQ(read.schedules.at("dense").bad_evaluations, 2);
  EXPECT_EQ(read.schedules.at("dense").factor, 0.5);
  EXPECT_EQ(read.early_stopping.metric, "auc");
  EXPECT_TRUE(read.early_stopping.has_best);
  EXPECT_EQ(read.early_stopping.best, 0.8);
  EXPECT_EQ(read.early_stopping.best_step, 100);
  EXPECT_EQ(read.early_stopping.bad_evaluations, 1);
  EXPECT_EQ(read.loss_scale, manifest.loss_scale);
  EXPECT_TRUE(read.evaluation_due);
  EXPECT_TRUE(read.only_best);
  EXPECT_EQ(read.metrics.at("auc"), 1.0 / 3);
  EXPECT_EQ(read.seeds.at("train"), ~uint64_t{0});
  EXPECT_EQ(read.input_files, manifest.input_files);
  EXPECT_EQ(read.sampler_files, manifest.sampler_files);
  EXPECT_EQ(read.files, manifest.files);
}

// A manifest without loss_scale, evaluation_due, only_best and the metric of early_stopping.
TEST(Manifest, ReadsWhatOlderProgramsWrote) {
  const Manifest read = parse_manifest(R"({
 "format": "emblem-checkpoint",
 "format_version": 1,
 "checksum": "6230851b62e80ec4",
 "emblem_version": "0.1.0",
 "step": 3,
 "epoch": 0,
 "model": {
  "type": "lr",
  "parameters": [
   {
    "name": "wide.0.weight",
    "shape": [
     1,
     1
    ]
   },
   {
    "name": "wide.0.bias",
    "shape": [
     1,
     1
    ]
   },
   {
    "name": "wide.1.bias",
    "shape": [
     1,
     1
    ]
   }
  ]
 },
 "data_position": {
  "epoch": 0,
  "piece": 0,
  "row": 0,
  "emitted": 48,
  "rows_in_epoch": 48
 },
 "early_stopping": {
  "has_best": false,
  "best": 0.0,
  "best_step": 0,
  "bad_evaluations": 0
 },
 "deltas": 0,
 "tables": [],
 "schedules": {
  "dense": {
   "best": 0.0,
   "has_best": false,
   "bad_evaluations": 0,
   "factor": 1.0
  },
  "sparse": {
   "best": 0.0,
   "has_best": false,
   "bad_evaluations": 0,
   "factor": 1.0
  }
 },
 "metrics": {},
 "seeds": {
  "train": 1
 },
 "files": {
  "dense.safetensors": {
   "bytes": 312,
   "checksum": "3598fbf861bf1aee"
  },
  "pipeline.config": {
   "bytes": 511,
   "checksum": "9f7e0849b9be6f9c"
  }
 }
}
)",
                                       "m");
  EXPECT_EQ(read.step, 3);
  EXPECT_EQ(read.early_stopping.metric, "");
  EXPECT_EQ(read.loss_scale, std::nullopt);
  EXPECT_FALSE(read.evaluation_due);
  EXPECT_FALSE(read.only_best);
}

TEST(Manifest, KeepsNumbersThatJsonDoesNotKnow) {
  Manifest manifest;
  manifest.metrics = {{"auc", NAN}};
  manifest.schedules["dense"].best = INFINITY;
  manifest.early_stopping.best = -INFINITY;
  const Manifest read = parse_manifest(manifest_text(manifest), "m");
  EXPECT_TRUE(std::isnan(read.metrics.at("auc")));
  EXPECT_EQ(read.schedules.at("dense").best, INFINITY);
  EXPECT_EQ(read.early_stopping.best, -INFINITY);
}

TEST(Manifest, NoticesEveryChangedByteAndEveryTruncation) {
  const std::string good = manifest_text(whole_manifest());
  EXPECT_NO_THROW(parse_manifest(good, "m"));
  Random random{2};
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= static_cast<char>(1 + random.below(255));
    EXPECT_THROW(parse_manifest(bad, "m"), Error) << "byte " << at;
    EXPECT_THROW(parse_manifest(good.substr(0, at), "m"), Error) << at << " bytes left";
  }
}

TEST(Manifest, OfSeveralRanksIsOfANewerFormat) {
  Manifest manifest = sample_manifest();
  manifest.tables.clear();
  EXPECT_THAT(manifest_text(manifest), HasSubstr("\"format_version\": 1"));
  manifest.positions = {{.epoch = 1, .piece = 2, .row = 3}, {.epoch = 2}};
  const std::string text = manifest_text(manifest);
  EXPECT_THAT(text, HasSubstr("\"format_version\": 2"));
  EXPECT_EQ(parse_manifest(text, "DIR/manifest.json").positions, manifest.positions);
}

TEST(Manifest, TellsDamageFromForeignAndNewerFiles) {
  const std::string good = manifest_text(whole_manifest());
  EXPECT_THAT(parsing("{\"format\": "),
              ThrowsMessage<Error>("DIR/manifest.json is damaged: it is not valid JSON"));
  EXPECT_THAT(parsing(""), ThrowsMessage<Error>(HasSubstr("not valid JSON")));
  EXPECT_THAT(parsing(replaced(good, "dlrm", "dlrn")),
              ThrowsMessage<Error>(HasSubstr("is damaged: its checksum")));
  for (const char* foreign : {"{}", "[]", "3", "null", "{\"format\": \"pt\"}", "{\"format\": 7}"}) {
    EXPECT_THAT(
        parsing(foreign),
        ThrowsMessage<Error>("DIR/manifest.json is not the manifest of an emblem checkpoint"))
        << foreign;
  }
  EXPECT_THAT(parsing(replaced(good, "\"format_version\": 1", "\"format_version\": 3")),
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("has checkpoint format 3"), HasSubstr("reads formats up to 2"))));
}

// Values are copied recursively.
TEST(Manifest, DeepValuesDoNotEndTheProcess) {
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  EXPECT_THAT(parsing("{\"format\": " + deep + "}"),
              ThrowsMessage<Error>(HasSubstr("not the manifest of an emblem checkpoint")));
  const std::string good = manifest_text(whole_manifest());
  EXPECT_THAT(parsing(set_self_checksum(
                  replaced(good, "\"epoch\": ", "\"epoch\": " + deep + ", \"other\": "))),
              ThrowsMessage<Error>(HasSubstr("is damaged")));
}

TEST(Manifest, NamesTheValueThatIsMissingOrOfAnotherType) {
  const std::string good = manifest_text(whole_manifest());
  EXPECT_THAT(parsing(set_self_checksum(replaced(good, "\"epoch\"", "\"apoch\""))),
              ThrowsMessage<Error>("DIR/manifest.json is damaged: \"epoch\" is missing"));
  EXPECT_THAT(
      parsing(set_self_checksum(replaced(good, "\"epoch\": ", "\"epoch\": [], \"other\": "))),
      ThrowsMessage<Error>("DIR/manifest.json is damaged: expected number, found array"));
}

TEST(Manifest, RefusesTablesWhoseFilesItDoesNotList) {
  Manifest manifest;
  manifest.tables = {{.name = "user", .files = {"tables/user/key"}}};
  EXPECT_THAT(parsing(manifest_text(manifest)),
              ThrowsMessage<Error>(HasSubstr("is damaged: no file tables/user/key")));
}

TEST(Manifest, RefusesTableNamesThatLeadOutOfTheCheckpoint) {
  for (const char* name : {"../../x", "/etc", "a/b", "a\\b", "..", ".", ""}) {
    Manifest manifest;
    manifest.tables = {{.name = name}};
    EXPECT_THAT(parsing(manifest_text(manifest)),
                ThrowsMessage<Error>(cat("DIR/manifest.json is damaged: table name \"", name,
                                         "\" is not a plain name")))
        << name;
  }
}

TEST(Manifest, RefusesPathsThatLeadOutOfTheCheckpoint) {
  for (const std::string& path :
       {std::string("../x"), std::string("/etc/passwd"), std::string("a/../../x"), std::string(""),
        std::string("a/.."), std::string("a/./b"), std::string("a//b"), std::string("a/"),
        std::string("a\\b"), std::string("a\0b", 3), std::string(300, 'x')}) {
    Manifest manifest;
    manifest.files[path] = {};
    EXPECT_THAT(parsing(manifest_text(manifest)),
                ThrowsMessage<Error>(HasSubstr("is damaged: path")))
        << path;
  }
}

}  // namespace
}  // namespace emblem
