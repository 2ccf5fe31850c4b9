#include "data/synth/retrieval_synth.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "core/text/text.h"
#include "core/threads/thread_pool.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kCategories = 20;

RetrievalSynthOptions small(const std::string& out) {
  return {.out = out,
          .rows = 100,
          .test_rows = 20'000,
          .users = 300,
          .items = 700,
          .categories = kCategories};
}

std::vector<std::vector<int64_t>> numbers_of(const std::string& file, size_t skipped_column) {
  std::istringstream lines(read_text_file(file));
  std::vector<std::vector<int64_t>> rows;
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line);) {
    rows.emplace_back();
    const std::vector<std::string> fields = split(line, ',');
    for (size_t i = 0; i < fields.size(); ++i)
      if (i != skipped_column) rows.back().push_back(std::stoll(fields[i]));
  }
  return rows;
}

TEST(RetrievalSynth, TheBestRecallIsThatOfWhoeverKnowsTheTastes) {
  const TempFolder folder;
  const RetrievalSynthResult made = synthesize_retrieval({}, small(folder.path("data")));
  std::map<int64_t, std::vector<int64_t>> items;
  for (const auto& row : numbers_of(folder.path("data/items/part-00000.csv"), 9))
    items[row[1]].push_back(row[0]);
  const auto rows = numbers_of(folder.path("data/test/part-00000.csv"), 4);
  ASSERT_EQ(rows.size(), 20'000u);
  double hits = 0;
  for (const auto& row : rows) {  // click, user, taste_a, taste_b, item, category
    const int64_t first = kCategories - 1 - row[2];
    const int64_t second = (row[3] + kCategories - 7) % kCategories;
    EXPECT_NE(first, second);
    // Items of a category are about 35 and alike: all of the first taste, then of the second.
    const auto of_first = std::ssize(items[first]), of_second = std::ssize(items[second]);
    ASSERT_GT(kFirstTaste / of_first, kSecondTaste / of_second) << "the order of the tastes";
    const double room = 50;
    if (row[5] == first) hits += std::min(1.0, room / of_first);
    if (row[5] == second) hits += std::clamp((room - of_first) / of_second, 0.0, 1.0);
  }
  // Choices of any item are in a taste by chance, too: part of both figures.
  EXPECT_NEAR(hits / 20'000, made.best_recall, 0.015);
  EXPECT_GT(made.best_recall, 0.6);
}

TEST(RetrievalSynth, TheSameBytesWithAnyNumberOfThreads) {
  const TempFolder folder;
  ThreadPool threads(3);
  const Context several{.threads = &threads};
  synthesize_retrieval({}, small(folder.path("one")));
  synthesize_retrieval(several, small(folder.path("three")));
  for (const char* file : {"train/part-00000.csv", "test/part-00000.csv", "items/part-00000.csv"})
    EXPECT_EQ(read_text_file(folder.path("one/") + file),
              read_text_file(folder.path("three/") + file));
}

TEST(RetrievalSynth, RefusesWhatItCannotWrite) {
  const TempFolder folder;
  const auto refused = [&](auto&& change, const char* said) {
    RetrievalSynthOptions options = small(folder.path("data"));
    change(options);
    EXPECT_THAT([&] { synthesize_retrieval({}, options); }, ThrowsMessage<Error>(HasSubstr(said)));
  };
  refused([](auto& options) { options.rows = 0; }, "number of rows is 0");
  refused([](auto& options) { options.categories = 1; }, "two categories");
  refused([](auto& options) { options.format = "raw"; }, "cannot be written as raw");
}

}  // namespace
}  // namespace emblem
