#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>

#include "api/trained_test.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Tables of 200 rows that come one by one, and how many of them there were at a time.
class Tables {
 public:
  explicit Tables(int count) : count_(count) {}

  api::Data data() {
    return api::Data::passes([this] {
      ++passes_;
      return [this, at = int64_t{0}]() mutable {
        if (at == count_) return api::Data();
        {
          const std::lock_guard lock(mutex_);
          most_ = std::max(most_, ++alive_);
        }
        const auto rows = std::make_shared<ClickRows>(200, 200 * at++);
        return rows->data(std::shared_ptr<const void>(rows.get(), [this, rows](const void*) {
          const std::lock_guard lock(mutex_);
          --alive_;
        }));
      };
    });
  }
  int passes() const { return passes_; }
  int most_alive() const { return most_; }
  int alive() const { return alive_; }

 private:
  const int count_;
  std::mutex mutex_;
  int passes_ = 0, alive_ = 0, most_ = 0;
};

std::vector<float> weights_of(const std::string& checkpoint) {
  api::Model model(checkpoint, {.threads = 1});
  return model.predict(ClickRows(50).data()).values;
}

TEST(Passes, TrainingReadsATableAtATimeAndLearnsTheSame) {
  const TempFolder folder;
  Tables tables(40);
  const ClickRows whole(8000);
  std::vector<std::vector<float>> learned;
  api::Pipeline pipeline = click_pipeline(3);
  pipeline.set("data_config.shuffle", "false");
  pipeline.set("data_config.num_workers", "1");
  for (const api::Data& data : {tables.data(), whole.data()}) {
    api::Trainer trainer(pipeline, data, {},
                         {.model_dir = folder.path(std::to_string(learned.size())), .threads = 1});
    while (trainer.step()) {
    }
    learned.push_back(weights_of(trainer.close().checkpoint));
  }
  EXPECT_EQ(learned[0], learned[1]);
  EXPECT_EQ(tables.passes(), 3);  // one per epoch
  EXPECT_LE(tables.most_alive(), 8) << "of 40";
  EXPECT_EQ(tables.alive(), 0);
}

TEST(Passes, PredictionsAndPipelinesAreThoseOfTheWhole) {
  const TempFolder folder;
  const std::string checkpoint = train_clicks(folder.path("model"));
  api::Model model(checkpoint, {.threads = 1});
  Tables tables(10);
  const ClickRows whole(2000);
  EXPECT_EQ(model.predict(tables.data()).values, model.predict(whole.data()).values);
  EXPECT_EQ(tables.passes(), 1);
  EXPECT_EQ(model.evaluate(tables.data()).metrics, model.evaluate(whole.data()).metrics);
  EXPECT_TRUE(tables.data().is_streamed());
  EXPECT_EQ(tables.data().rows(), -1);

  const StarterOptions options{.label = "click", .categories = {"user"}};
  const std::string text = api::Pipeline::for_data(whole.data(), options).pipeline.text();
  EXPECT_EQ(api::Pipeline::for_data(tables.data(), options).pipeline.text(), text);
  StarterOptions few = options;
  few.sampled_rows = 400;
  Tables many(1000);
  const Starter starter = api::Pipeline::for_data(many.data(), few);
  EXPECT_THAT(starter.summary, HasSubstr("400 of the first rows read"));
  EXPECT_EQ(many.most_alive(), 2);
}

TEST(Passes, ErrorsOfTheSourceReachTheCaller) {
  const TempFolder folder;
  const std::string checkpoint = train_clicks(folder.path("model"));
  api::Model model(checkpoint, {.threads = 1});
  const auto predict = [&](std::function<api::NextData()> begin) {
    return [&model, begin] { model.predict(api::Data::passes(begin)); };
  };
  const ClickRows rows(10);
  EXPECT_THAT(
      predict([]() -> api::NextData { throw Error(ErrorCode::kUnavailable, "no connection"); }),
      ThrowsMessage<Error>(HasSubstr("no connection")));
  EXPECT_THAT(predict([&rows] {
                return [&rows, at = 0]() mutable -> api::Data {
                  if (at++ > 0) throw Error(ErrorCode::kUnavailable, "connection lost");
                  return rows.data();
                };
              }),
              ThrowsMessage<Error>(HasSubstr("connection lost")));
  EXPECT_THAT(predict([] { return [] { return api::Data(); }; }),
              ThrowsMessage<Error>(HasSubstr("has no rows")));
  EXPECT_THAT(predict([] { return [] { return api::Data::files("x.csv"); }; }),
              ThrowsMessage<Error>(HasSubstr("tables in memory")));
  EXPECT_THAT([] { api::Data::passes(nullptr); }, ThrowsMessage<Error>(HasSubstr("is empty")));
  EXPECT_THAT(predict([] { return api::NextData(); }),
              ThrowsMessage<Error>(HasSubstr("returns an empty function")));
}

TEST(Passes, PipelinesForNoRowsAreRefused) {
  const auto choose = [](std::function<api::NextData()> begin, int64_t rows) {
    return [begin, rows] {
      StarterOptions options{.label = "click"};
      options.sampled_rows = rows;
      api::Pipeline::for_data(api::Data::passes(begin), options);
    };
  };
  Tables tables(3);
  EXPECT_THAT(choose([] { return [] { return api::Data(); }; }, 100),
              ThrowsMessage<Error>(HasSubstr("gives no tables")));
  EXPECT_THAT(choose([] { return api::NextData(); }, 100),
              ThrowsMessage<Error>(HasSubstr("returns an empty function")));
  EXPECT_THAT(
      [&] { api::Pipeline::for_data(tables.data(), {.label = "click", .sampled_rows = -5}); },
      ThrowsMessage<Error>(HasSubstr("rows to read is -5")));
}

}  // namespace
}  // namespace emblem
