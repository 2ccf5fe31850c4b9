#include "train/predict/prediction_file.h"

#include <gmock/gmock.h>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<HeadSpec> heads() {
  HeadSpec ctr, kind, time;
  ctr.name = "ctr";
  kind.name = "kind";
  kind.kind = HeadKind::kClass;
  kind.classes = 3;
  time.name = "time";
  time.kind = HeadKind::kNumber;
  return {ctr, kind, time};
}

TEST(PredictionFile, HasAColumnForEveryOutput) {
  EXPECT_THAT(prediction_columns(choose_outputs(heads(), {})),
              ElementsAre("probs_ctr", "probs_kind_0", "probs_kind_1", "probs_kind_2", "y_time"));
  EXPECT_THAT(prediction_columns(choose_outputs({HeadSpec{}}, {})), ElementsAre("prediction"));
}

TEST(PredictionFile, WritesTheOutputsThatAreChosen) {
  const std::vector<std::string> names = {"y_time", "probs_ctr"};
  const TempFolder folder;
  PredictionFile file(folder.path("out.csv"), {}, heads(), choose_outputs(heads(), names));
  Batch batch;
  batch.rows = 2;
  batch.bad = {0, 1};
  const std::vector<float> ctr = {0, 0}, kind(6), time = {2.5f, 0};
  file.add(batch, {{ctr.data(), 2, 1}, {kind.data(), 2, 3}, {time.data(), 2, 1}});
  file.finish();
  EXPECT_EQ(read_text_file(folder.path("out.csv")), "y_time,probs_ctr\n2.5,0.5\n,\n");
}

TEST(PredictionFile, KnowsTheOutputsOfTheModel) {
  const auto choose = [](std::vector<std::string> names) { choose_outputs(heads(), names); };
  EXPECT_THAT([&] { choose({"probs"}); },
              ThrowsMessage<Error>(HasSubstr("no output \"probs\"; it has probs_ctr, logits_ctr")));
  EXPECT_THAT(
      [&] {
        choose({"y_time", "y_time"});
      },
      ThrowsMessage<Error>(HasSubstr("is named twice")));
  const std::vector<ColumnSpec> keep = {{.name = "y_time", .type = ColumnType::kText}};
  const TempFolder folder;
  EXPECT_THAT(
      [&] { PredictionFile(folder.path("out.csv"), keep, heads(), choose_outputs(heads(), {})); },
      ThrowsMessage<Error>(HasSubstr("--keep names \"y_time\"")));
}

}  // namespace
}  // namespace emblem
