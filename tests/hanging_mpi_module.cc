// A module of MPI (src/comm/mpi_module/mpi_module.h) for a rank alone, whose exchanges hang while
// a test says so: as MPI hangs in a call that waits for a lost rank.
#include <unistd.h>

#include <atomic>

#include "comm/mpi_module/mpi_module.h"

namespace {

std::atomic<bool> hangs{false};

const char* open(int* rank, int* size) {
  *rank = 0;
  *size = 1;
  return nullptr;
}

const char* version_text() { return "hanging MPI"; }

const char* start(const EmblemMpiPiece*, const EmblemMpiPiece*, uint64_t) {
  if (!hangs) return nullptr;
  while (hangs) ::usleep(1000);
  return "the call was ended";
}

const char* test(int* done) {
  *done = 1;
  return nullptr;
}

void close() {}

}  // namespace

extern "C" {

const EmblemMpi* emblem_mpi_module() {
  static const EmblemMpi module{kMpiModuleVersion, open, version_text, start, test, close};
  return &module;
}

void let_mpi_hang(bool yes) { hangs = yes; }
}
