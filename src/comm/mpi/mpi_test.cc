#include "comm/mpi/mpi.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "core/system/dynamic_library.h"

namespace emblem {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Mpi, ACallThatHangsAfterAFailureIsLeftToTheFunctionOfItsUser) {
  ::setenv("EMBLEM_MPI_MODULE", EMBLEM_HANGING_MPI, 1);
  void (*let_mpi_hang)(bool) = nullptr;
  DynamicLibrary(EMBLEM_HANGING_MPI, "").find("let_mpi_hang", let_mpi_hang);
  std::string failure;
  std::atomic<int> calls = 0;
  TcpSettings settings;
  settings.watch.heartbeat_seconds = 0.02;
  settings.watch.stuck_seconds = 0.1;
  settings.watch.on_stuck = [&](const std::string& line) {
    failure = line;
    ++calls;
    let_mpi_hang(false);
  };
  const auto ranks = connect_by_mpi(settings);
  ranks->barrier();
  let_mpi_hang(true);
  std::thread failing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ranks->fail("disk full");
  });
  EXPECT_THAT([&] { ranks->barrier(); }, ThrowsMessage<Error>(HasSubstr("the call was ended")));
  failing.join();
  ASSERT_EQ(calls, 1);
  EXPECT_THAT(failure, HasSubstr("disk full"));
  ::unsetenv("EMBLEM_MPI_MODULE");
}

}  // namespace
}  // namespace emblem
