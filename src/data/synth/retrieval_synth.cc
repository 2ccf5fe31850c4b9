#include "data/synth/retrieval_synth.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/synth/data_set.h"
#include "data/synth/streams.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kClicks = 5, kMostFound = 50, kRetrievalChunkRows = 4096;

enum class RetrievalStream : uint8_t { kCategory, kFirstTaste, kSecondTaste, kRows };

// Items, users, and what they choose.
class Tastes {
 public:
  explicit Tastes(const RetrievalSynthOptions& options)
      : options_(options), of_category_(static_cast<size_t>(options.categories)) {
    for (int64_t item = 0; item < options.items; ++item)
      of_category_[static_cast<size_t>(category_of(item))].push_back(item);
  }

  int64_t category_of(int64_t item) const {
    return draw(RetrievalStream::kCategory, item, options_.categories);
  }
  int64_t first_taste(int64_t user) const {
    return draw(RetrievalStream::kFirstTaste, user, options_.categories);
  }
  // Another one than the first.
  int64_t second_taste(int64_t user) const {
    const int64_t further = draw(RetrievalStream::kSecondTaste, user, options_.categories - 1);
    return (first_taste(user) + 1 + further) % options_.categories;
  }
  // What the columns taste_a and taste_b say instead of a category: one name for each.
  int64_t name_a(int64_t category) const { return options_.categories - 1 - category; }
  int64_t name_b(int64_t category) const { return (category + 7) % options_.categories; }

  int64_t choose(int64_t user, Random& random) const {
    const double chance = static_cast<double>(random.bits() >> 11) * 0x1p-53;
    if (chance < kFirstTaste + kSecondTaste) {
      const auto& of = items_of(chance < kFirstTaste ? first_taste(user) : second_taste(user));
      if (!of.empty()) return of[random.below(of.size())];
    }
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(options_.items)));
  }

  // The chance that the next choice is among the kMostFound items that are the most likely.
  double best_recall(int64_t user) const {
    const auto share = [&](int64_t taste, double chance) {
      const auto count = static_cast<double>(items_of(taste).size());
      return std::pair(count == 0 ? 0.0 : chance / count, count);
    };
    std::pair<double, double> parts[] = {share(first_taste(user), kFirstTaste),
                                         share(second_taste(user), kSecondTaste)};
    std::ranges::sort(parts, std::greater());
    double recall = 0, room = static_cast<double>(std::min(kMostFound, options_.items));
    recall += room * (1 - kFirstTaste - kSecondTaste) / static_cast<double>(options_.items);
    for (const auto& [chance, count] : parts) {
      recall += chance * std::min(room, count);
      room -= std::min(room, count);
    }
    return recall;
  }

 private:
  int64_t draw(RetrievalStream use, int64_t index, int64_t bound) const {
    Random random{options_.seed, stream(use), static_cast<uint64_t>(index)};
    return static_cast<int64_t>(random.below(static_cast<uint64_t>(bound)));
  }
  const std::vector<int64_t>& items_of(int64_t category) const {
    return of_category_[static_cast<size_t>(category)];
  }

  const RetrievalSynthOptions& options_;
  std::vector<std::vector<int64_t>> of_category_;
};

const std::vector<ColumnSpec> kRowColumns = {
    {"click", ColumnType::kInt64},       {"user", ColumnType::kInt64},
    {"taste_a", ColumnType::kInt64},     {"taste_b", ColumnType::kInt64},
    {"clicks__item", ColumnType::kText}, {"item", ColumnType::kInt64},
    {"category", ColumnType::kInt64}};
const std::vector<ColumnSpec> kItemColumns = {{"item", ColumnType::kInt64},
                                              {"category", ColumnType::kInt64}};

void clear(const std::vector<ColumnSpec>& columns, Block& block) {
  block.rows = 0;
  block.columns.resize(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) block.columns[i].clear(columns[i].type);
}

void add_row(std::initializer_list<int64_t> values, const std::string& clicks, Block& block) {
  size_t at = 0;
  for (const int64_t value : values) {
    Column* column = &block.columns[at++];
    if (column->type == ColumnType::kText) {
      column->text += clicks;
      column->text_ends.push_back(static_cast<uint32_t>(column->text.size()));
      column = &block.columns[at++];
    }
    column->ints.push_back(value);
  }
  ++block.rows;
}

struct RetrievalChunk {
  Block block;
  EncodedRows encoded;
  double best_recall = 0;
};

// Returns the bytes, and adds the best recall of each row.
int64_t write_rows(const Context& context, const RetrievalSynthOptions& options,
                   const Tastes& tastes, const fs::path& folder, SynthSplit split, int64_t rows,
                   Progress& progress, int64_t rows_before, double& best_recall) {
  const auto writer = make_writer(options.format, folder.string(), kRowColumns, options.writing);
  const auto fill = [&](RetrievalChunk& chunk, int64_t begin, int64_t end) {
    clear(kRowColumns, chunk.block);
    chunk.best_recall = 0;
    std::string clicks;
    for (int64_t row = begin; row < end; ++row) {
      Random random = row_random(RetrievalStream::kRows, options.seed, split, row);
      const auto user = static_cast<int64_t>(random.below(static_cast<uint64_t>(options.users)));
      clicks.clear();
      for (int64_t i = 0; i < kClicks; ++i)
        clicks += cat(i == 0 ? "" : "|", tastes.choose(user, random));
      const int64_t item = tastes.choose(user, random);
      add_row({1, user, tastes.name_a(tastes.first_taste(user)),
               tastes.name_b(tastes.second_taste(user)), item, tastes.category_of(item)},
              clicks, chunk.block);
      chunk.best_recall += tastes.best_recall(user);
    }
    writer->encode(chunk.block, begin, chunk.encoded);
  };
  write_chunks<RetrievalChunk>(context, rows, kRetrievalChunkRows, progress, rows_before, fill,
                               [&](const RetrievalChunk& chunk) {
                                 writer->append(chunk.encoded);
                                 best_recall += chunk.best_recall;
                               });
  writer->finish();
  return writer->bytes_written();
}

int64_t write_items(const RetrievalSynthOptions& options, const Tastes& tastes,
                    const fs::path& folder) {
  const auto writer = make_writer(options.format, folder.string(), kItemColumns, options.writing);
  Block block;
  for (int64_t item = 0; item < options.items;) {
    clear(kItemColumns, block);
    for (; item < options.items && block.rows < kRetrievalChunkRows; ++item)
      add_row({item, tastes.category_of(item)}, "", block);
    writer->write(block);
  }
  writer->finish();
  return writer->bytes_written();
}

std::string metadata(const RetrievalSynthOptions& options, const RetrievalSynthResult& result) {
  const nlohmann::ordered_json json = {{"pipeline", "retrieval"},
                                       {"format", options.format},
                                       {"rows", result.rows},
                                       {"test_rows", result.test_rows},
                                       {"users", options.users},
                                       {"items", options.items},
                                       {"categories", options.categories},
                                       {"seed", options.seed},
                                       {"best", {{"full_recall@50", result.best_recall}}}};
  return json.dump(2) + "\n";
}

void check(const RetrievalSynthOptions& options) {
  EMBLEM_REQUIRE(options.rows > 0, "the number of rows is ", options.rows, "; expected 1 or more");
  EMBLEM_REQUIRE(options.users > 0 && options.items > 0 && options.categories > 1, "there are ",
                 options.users, " users, ", options.items, " items and ", options.categories,
                 " categories; expected one user and item at least, and two categories");
  EMBLEM_REQUIRE(options.format == "csv" || options.format == "parquet" ||
                     options.format == "orc" || options.format == "arrow",
                 "the preset retrieval cannot be written as ", options.format,
                 "; expected csv, parquet, orc or arrow");
}

}  // namespace

RetrievalSynthResult synthesize_retrieval(const Context& context,
                                          const RetrievalSynthOptions& options) {
  check(options);
  const Tastes tastes(options);
  RetrievalSynthResult result{.rows = options.rows,
                              .test_rows = test_rows_of(options.test_rows, options.rows)};
  OutputFolder folder(options.out, options.writing.overwrite);
  Progress progress("synth", result.rows + result.test_rows);
  const fs::path path(folder.path());
  double ignored = 0, sum = 0;
  result.bytes = write_rows(context, options, tastes, path / "train", SynthSplit::kTrain,
                            result.rows, progress, 0, ignored);
  result.bytes += write_rows(context, options, tastes, path / "test", SynthSplit::kTest,
                             result.test_rows, progress, result.rows, sum);
  result.bytes += write_items(options, tastes, path / "items");
  result.best_recall = sum / static_cast<double>(result.test_rows);
  finish_data_set(folder, metadata(options, result), progress);
  return result;
}

}  // namespace emblem
