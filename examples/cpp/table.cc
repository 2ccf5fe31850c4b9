// Trains an embedding table of one's own: matrix factorization of ratings, with the gradients of a
// loss that is written here. Build: docs/cpp.md.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "emblem/error.h"
#include "emblem/lookup.h"
#include "emblem/runtime.h"
#include "emblem/table.h"

namespace {

constexpr int64_t kDim = 8, kRows = 256;

// Users like items of their own kind: a rating is 1 or 0.
struct Ratings {
  std::vector<int64_t> user, item;
  std::vector<float> rating;

  explicit Ratings(int64_t step) {
    for (int64_t row = 0; row < kRows; ++row) {
      user.push_back((step * kRows + row) * 7919 % 1000 * 1000003);  // any 64-bit number is a key
      item.push_back((step * kRows + row) * 104729 % 200);
      rating.push_back(user.back() / 1000003 % 4 == item.back() % 4 ? 1.0f : 0.0f);
    }
  }
};

// The mean squared error of a batch, and its gradients by the rows [user, item] of the lookup.
double loss(const Ratings& batch, const std::vector<float>& rows, std::vector<float>& gradients) {
  double sum = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    const float *user = &rows[row * 2 * kDim], *item = user + kDim;
    const float error = std::inner_product(user, user + kDim, item, 0.0f) - batch.rating[row];
    sum += error * error;
    for (int64_t d = 0; d < kDim; ++d) {
      gradients[row * 2 * kDim + d] = error * item[d];
      gradients[row * 2 * kDim + kDim + d] = error * user[d];
    }
  }
  return sum / kRows;
}

double train(const char* folder) {
  const emblem::Optimizer optimizer = {"adagrad", {{"lr", "0.1"}}};
  emblem::Table users({.name = "users",
                       .dim = kDim,
                       .initializer = "normal,mean=0,std=0.3",
                       .optimizer = optimizer,
                       .capacity = 2000,
                       .eviction = "lru"});
  emblem::Table items({.name = "items",
                       .dim = kDim,
                       .rows = 200,
                       .initializer = "normal,mean=0,std=0.3",
                       .optimizer = optimizer});
  emblem::Lookup lookup({{&users}, {&items}});
  std::vector<float> rows(kRows * lookup.width()), gradients(rows.size());
  double error = 0;
  for (int64_t step = 0; step < 400; ++step) {
    const Ratings batch(step);
    lookup.forward({{.keys = batch.user}, {.keys = batch.item}}, emblem::Pass::kTraining,
                   rows.data());
    error = loss(batch, rows, gradients);
    lookup.backward(gradients.data());
  }
  users.save(folder);

  emblem::Table again(users.options());
  again.load(folder);
  std::printf("%lld users, error %.4f\n", static_cast<long long>(again.size()), error);
  return again.size() == users.size() ? error : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s NEW_FOLDER\n", argv[0]);
    return 2;
  }
  try {
    const emblem::Runtime runtime({.lowest = emblem::LogLevel::kWarning});
    return train(argv[1]) < 0.05 ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const emblem::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
