// comm/mpi/mpi.h - ranks that are processes of mpirun, connected by MPI: for fabrics that TCP does
// not use well. Failures are noticed over TCP connections to rank 0, as with comm/tcp/tcp.h.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/tcp/tcp.h"

namespace emblem {

// The module's file: EMBLEM_MPI_MODULE, or libemblem_mpi.so (core/system/module.h); "" where there
// is none.
std::string find_mpi_module();

// `settings.join.rank` and `size` are what the launcher says; MPI must say the same. The address of
// rank 0 is taken from settings.join if it is not empty, else its host name; the port is a free one
// that MPI tells the others. CPU memory. Once in a process. Throws kUnsupported without the module.
std::unique_ptr<Communicator> connect_by_mpi(TcpSettings settings);

}  // namespace emblem
