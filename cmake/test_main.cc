// The main() of tests that read ORC files, by this program in a second process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/format/columnar/orc_readers.h"

int main(int argc, char** argv) {
  if (emblem::is_orc_reader(argc, argv)) return emblem::run_orc_reader();
  testing::InitGoogleMock(&argc, argv);
  const emblem::OrcReaders readers({"/proc/self/exe", emblem::kOrcReaderArgument});
  return RUN_ALL_TESTS();
}
