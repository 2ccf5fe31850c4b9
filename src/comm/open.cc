#include "comm/open.h"

#include "comm/mpi/mpi.h"
#include "comm/tcp/job_secret.h"
#include "comm/threads/threads.h"

namespace emblem {

std::unique_ptr<Communicator> open_communicator(const RankPlace& place,
                                                const std::string& transport,
                                                TcpSettings settings) {
  EMBLEM_REQUIRE(transport == "auto" || transport == "tcp" || transport == "mpi",
                 "unknown transport \"", transport, "\"; expected auto, tcp or mpi");
  if (place.size == 1 && transport != "mpi")
    return std::move(make_thread_ranks(1, settings.collective_seconds).front());
  settings.join.rank = place.rank;
  settings.join.size = place.size;
  settings.join.address = place.address;
  settings.join.port = place.port;
  settings.join.secret = job_secret();
  if (transport == "mpi" || (transport == "auto" && place.address.empty()))
    return connect_by_mpi(std::move(settings));
  EMBLEM_REQUIRE(!place.address.empty(), name_of(place.launcher),
                 " does not tell where rank 0 runs; set MASTER_ADDR to its host and MASTER_PORT to "
                 "a free port there, or use --transport mpi");
  return connect_by_tcp(settings);
}

}  // namespace emblem
