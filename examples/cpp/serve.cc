// Serves a checkpoint inside of this process until its input ends. Build: docs/cpp.md.
#include <cstdio>
#include <cstdlib>

#include "emblem/error.h"
#include "emblem/model.h"
#include "emblem/runtime.h"
#include "emblem/server.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CHECKPOINT\n", argv[0]);
    return 2;
  }
  try {
    {
      const emblem::Runtime runtime({.lowest = emblem::LogLevel::kWarning});
      emblem::Server server(emblem::Model(argv[1]), "model", {.http_threads = 1});
      std::printf("%s/v2/models/model/infer\n", server.url().c_str());
      std::fflush(stdout);
      while (std::getchar() != EOF) {
      }
      server.drain(5);
    }
    emblem::Runtime::finalize_stores();
    return EXIT_SUCCESS;
  } catch (const emblem::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
