#include "emblem/predictor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "api/trained_test.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class PublicPredictor : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder();
    checkpoint_ = train_clicks(folder_->path("model"));
  }
  static void TearDownTestSuite() { delete folder_; }

  static inline TempFolder* folder_ = nullptr;
  static inline std::string checkpoint_;
};

TEST_F(PublicPredictor, PredictsAsTheModelDoes) {
  const api::Predictor predictor(folder_->path("model"), {.threads = 2});
  api::Model model(checkpoint_, {.threads = 1});
  const std::string moved = folder_->path("moved");
  std::filesystem::rename(folder_->path("model"), moved);  // the predictor has a copy
  EXPECT_EQ(predictor.columns(), (std::vector<std::string>{"prediction"}));
  std::vector<float> values;
  for (const int64_t count : {1000, 1, 77, 1000}) {
    const ClickRows rows(count, 13);
    predictor.predict(rows.data(), values);
    const std::vector<float> expected = model.predict(rows.data()).values;
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-6);
  }
  const ClickRows first(30), second(20, 30), all(50);
  std::vector<float> expected;
  predictor.predict(all.data(), expected);
  predictor.predict(api::Data::join({first.data(), second.data()}), values);
  EXPECT_EQ(values, expected);
  std::filesystem::rename(moved, folder_->path("model"));
}

TEST_F(PublicPredictor, ThreadsPredictAtOnce) {
  const api::Predictor predictor(checkpoint_);
  constexpr int kThreads = 4, kCalls = 25;
  std::vector<std::vector<float>> expected;
  for (int call = 0; call < kThreads * kCalls; ++call)
    predictor.predict(ClickRows(1 + call % 37, call).data(), expected.emplace_back());
  std::vector<int> wrong(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::vector<float> values;
      for (int i = 0; i < kCalls; ++i) {
        const int call = i * kThreads + t;
        const ClickRows rows(1 + call % 37, call);
        predictor.predict(rows.data(), values);
        wrong[t] += values != expected[static_cast<size_t>(call)];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads));
}

TEST_F(PublicPredictor, SaysWhatItCannotRead) {
  const api::Predictor predictor(checkpoint_);
  std::vector<float> values;
  const ClickRows rows(3);
  const std::vector<std::string> words = {"cheap"};
  EXPECT_THAT([&] { predictor.predict({}, values); },
              ThrowsMessage<Error>(HasSubstr("rows in memory")));
  EXPECT_THAT([&] { predictor.predict(api::Data::files("x.csv"), values); },
              ThrowsMessage<Error>(HasSubstr("rows in memory")));
  const auto without_price =
      api::Data::columns({{.name = "user", .values = std::span<const int64_t>(rows.user)}});
  EXPECT_THAT([&] { predictor.predict(without_price, values); },
              ThrowsMessage<Error>(HasSubstr("price")));
  predictor.predict(rows.data(), values);  // works on
  EXPECT_EQ(values.size(), 3u);
  // Columns of other types than those of the first call.
  const auto of_words =
      api::Data::columns({{.name = "user", .values = std::span<const int64_t>(rows.user.data(), 1)},
                          {.name = "price", .values = std::span<const std::string>(words)}});
  EXPECT_THAT([&] { predictor.predict(of_words, values); }, testing::Throws<Error>());
  predictor.predict(rows.data(), values);
  EXPECT_THAT([&] { api::Predictor odd(checkpoint_, {.precision = "fp16"}); },
              ThrowsMessage<Error>(HasSubstr("fp32 or bf16")));
  EXPECT_THAT([&] { api::Predictor odd(checkpoint_, {.outputs = {"nosuch"}}); },
              ThrowsMessage<Error>(HasSubstr("nosuch")));
  EXPECT_THAT([&] { api::Predictor odd(folder_->path("nosuch")); }, testing::Throws<Error>());
  const api::Predictor narrow(checkpoint_, {.precision = "bf16", .row_precision = "int8"});
  std::vector<float> rounded;
  narrow.predict(rows.data(), rounded);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(rounded[i], values[i], 0.02);
}

}  // namespace
}  // namespace emblem
