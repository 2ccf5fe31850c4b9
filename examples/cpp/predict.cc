// Loads a checkpoint and predicts rows that are read from a file. Build: docs/cpp.md.
#include <cstdio>
#include <cstdlib>

#include "emblem/error.h"
#include "emblem/model.h"
#include "emblem/runtime.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CHECKPOINT ROWS\n", argv[0]);
    return 2;
  }
  try {
    {
      const emblem::Runtime runtime({.lowest = emblem::LogLevel::kWarning});
      emblem::Model model(argv[1]);
      const emblem::Predictions predicted = model.predict(emblem::Data::files(argv[2]));
      for (int64_t row = 0; row < predicted.rows; ++row)
        std::printf("%.6g\n", predicted.values[row * predicted.columns.size()]);
    }
    emblem::Runtime::finalize_stores();
    return EXIT_SUCCESS;
  } catch (const emblem::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
