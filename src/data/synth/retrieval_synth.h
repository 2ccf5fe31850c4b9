// data/synth/retrieval_synth.h - users who choose items by tastes that are planted, with the best
// recall that a search of all items can have.
#pragma once

#include <cstdint>
#include <string>

#include "core/device/context.h"
#include "data/format/writer.h"

namespace emblem {

// A user has a first and a second taste, each a category of items. It chooses an item of the first
// with a chance of kFirstTaste, of the second with kSecondTaste, and otherwise any item; all items
// of a category are alike. Tastes are told by the columns taste_a and taste_b, whose values are
// those of the categories under other names, and by the last five choices, clicks__item.
struct RetrievalSynthOptions {
  std::string out;  // gets train/, test/, items/ and metadata.json
  int64_t rows = 1'000'000;
  int64_t test_rows = -1;  // -1: a tenth of rows
  int64_t users = 50'000, items = 100'000, categories = 2'000;
  uint64_t seed = 1;
  std::string format = "csv";  // or "parquet", "orc", "arrow"
  WriterOptions writing;
};

struct RetrievalSynthResult {
  int64_t rows = 0, test_rows = 0, bytes = 0;
  // The expected full_recall@50 on the test rows, each of which is a user, of whoever knows the
  // tastes.
  double best_recall = 0.0;
};

inline constexpr double kFirstTaste = 0.6, kSecondTaste = 0.3;

// The same bytes with any number of threads. Nothing remains of a run that fails.
RetrievalSynthResult synthesize_retrieval(const Context& context,
                                          const RetrievalSynthOptions& options);

}  // namespace emblem
