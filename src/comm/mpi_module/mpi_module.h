// comm/mpi_module/mpi_module.h - what libemblem_mpi.so offers. It is compiled against one MPI
// library and loaded by the program, which itself is linked to none. A C interface: no exception
// crosses it.
#pragma once

#include <cstdint>

extern "C" {

inline constexpr int kMpiModuleVersion = 1;  // version of this interface

struct EmblemMpiPiece {
  void* data;
  uint64_t bytes;
};

struct EmblemMpi {
  int version;
  // Initializes MPI; once in a process. An error text, or null.
  const char* (*open)(int* rank, int* size);
  const char* (*version_text)();  // "Open MPI v4.1.4, ..."
  // Begins an all-to-all; `send` and `receive` have a piece for every rank, which must stay until
  // it is done. One at a time. An error text, or null.
  const char* (*start)(const EmblemMpiPiece* send, const EmblemMpiPiece* receive, uint64_t number);
  // *done: 1 when it is done. An error text, or null.
  const char* (*test)(int* done);
  void (*close)();  // finalizes MPI
};

const EmblemMpi* emblem_mpi_module();
}
