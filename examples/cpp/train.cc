// Trains on rows in memory, evaluates and predicts. Build: docs/cpp.md.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "emblem/error.h"
#include "emblem/model.h"
#include "emblem/runtime.h"
#include "emblem/trainer.h"

namespace {

// Users 0 to 24 click, the others do not; a number that says nothing.
struct Rows {
  std::vector<int64_t> user, click;
  std::vector<double> price;

  explicit Rows(int64_t count) {
    for (int64_t row = 0; row < count; ++row) {
      user.push_back(row * 7 % 50);
      click.push_back(user.back() < 25 ? 1 : 0);
      price.push_back(static_cast<double>(row % 3));
    }
  }
  emblem::Data data() const {
    return emblem::Data::columns({{.name = "user", .values = std::span<const int64_t>(user)},
                                  {.name = "click", .values = std::span<const int64_t>(click)},
                                  {.name = "price", .values = std::span<const double>(price)}});
  }
};

double train(const std::string& folder) {
  const Rows train(3000), valid(500);
  const emblem::Starter starter =
      emblem::Pipeline::for_data(train.data(), {.label = "click", .categories = {"user"}});
  emblem::Pipeline pipeline = starter.pipeline;
  pipeline.set("train_config.num_epochs", "5");
  emblem::Trainer trainer(pipeline, train.data(), valid.data(), {.model_dir = folder});
  while (trainer.step()) {
  }
  emblem::Model model(trainer.close().checkpoint);
  const emblem::Predictions predicted = model.predict(valid.data());
  std::printf("user 7: %.3f, user 49: %.3f\n", predicted.values[1], predicted.values[7]);
  return model.evaluate(valid.data()).metrics.at("auc");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s NEW_FOLDER\n", argv[0]);
    return 2;
  }
  try {
    double auc = 0;
    {
      const emblem::Runtime runtime({.lowest = emblem::LogLevel::kWarning});
      auc = train(argv[1]);
    }
    emblem::Runtime::finalize_stores();
    std::printf("auc %.4f\n", auc);
    return auc > 0.9 ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const emblem::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
