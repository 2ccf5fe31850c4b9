#include "loss/losses.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>

#include "loss/from_config.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Losses, OfTheSchemaAreAllInTheList) {
  const auto* losses = config::LossConfig::descriptor()->FindOneofByName("loss");
  for (int i = 0; i < losses->field_count(); ++i) {
    config::LossConfig loss;
    loss.GetReflection()->MutableMessage(&loss, losses->field(i));
    EXPECT_EQ(name_of(loss_from(loss)), losses->field(i)->name());
    EXPECT_EQ(head_of(loss_from(loss)), kind_of_head(loss));
  }
  EXPECT_EQ(losses->field_count(), static_cast<int>(std::variant_size_v<AnyLoss>));
}

TEST(Losses, WithoutOneAreRefusedWithTheList) {
  EXPECT_THAT([] { loss_from({}); }, ThrowsMessage<Error>(HasSubstr("set one of binary_cross_")));
  EXPECT_EQ(kind_of_head({}), HeadKind::kBinary);
}

TEST(Losses, SayWhichRowsTheyCompareAndHowTheyScaleLabels) {
  config::LossConfig loss;
  loss.mutable_jrc_loss()->set_session_name("s");
  EXPECT_EQ(session_of(loss), "s");
  EXPECT_EQ(classes_of(loss_from(loss)), 2);
  loss.mutable_lambdarank_loss()->set_session_name("t");
  EXPECT_EQ(session_of(loss), "t");
  EXPECT_EQ(label_scale_of(loss).deviation, 1.0f);
  loss.mutable_l2_loss()->set_standard_deviation(3);
  EXPECT_EQ(session_of(loss), std::nullopt);
  EXPECT_EQ(label_scale_of(loss).deviation, 3.0f);
}

}  // namespace
}  // namespace emblem
