// api/trained_test.h - rows and a small model for tests of the public headers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emblem/model.h"
#include "emblem/trainer.h"

namespace emblem {

// Users 0 to 24 click, the others do not; a number that says nothing.
struct ClickRows {
  std::vector<int64_t> user, click;
  std::vector<double> price;

  explicit ClickRows(int64_t count, int64_t first = 0) {
    for (int64_t row = first; row < first + count; ++row) {
      user.push_back(row * 7 % 50);
      click.push_back(user.back() < 25 ? 1 : 0);
      price.push_back(static_cast<double>(row % 3));
    }
  }
  // `owner` is kept as long as the rows are used.
  api::Data data(std::shared_ptr<const void> owner = nullptr) const {
    return api::Data::columns({{.name = "user", .values = std::span<const int64_t>(user)},
                               {.name = "click", .values = std::span<const int64_t>(click)},
                               {.name = "price", .values = std::span<const double>(price)}},
                              std::move(owner));
  }
};

inline api::Pipeline click_pipeline(int epochs = 2) {
  const ClickRows rows(1000);
  api::Pipeline pipeline =
      api::Pipeline::for_data(rows.data(), {.label = "click", .categories = {"user"}}).pipeline;
  pipeline.set("train_config.num_epochs", std::to_string(epochs));
  pipeline.set("data_config.batch_size", "100");
  for (const char* field : {"data_config.holdout_ratio", "data_config.holdout_fields",
                            "train_config.early_stopping", "train_config.eval_epochs"})
    pipeline.remove(field);
  return pipeline;
}

// A checkpoint in a new folder.
inline std::string train_clicks(const std::string& model_dir, int epochs = 2) {
  const ClickRows rows(1000);
  api::Trainer trainer(click_pipeline(epochs), rows.data(), {},
                       {.model_dir = model_dir, .threads = 1});
  while (trainer.step()) {
  }
  return trainer.close().checkpoint;
}

}  // namespace emblem
