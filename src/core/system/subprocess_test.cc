#include "core/system/subprocess.h"

#include <gtest/gtest.h>

#include "core/files/file.h"
#include "core/files/temp_folder_test.h"
#include "emblem/error.h"

namespace emblem {
namespace {

SubprocessResult run_shell(const std::string& script, const std::string& log = "",
                           double timeout_seconds = 0) {
  return run_subprocess({.arguments = {"/bin/sh", "-c", script},
                         .environment = {{"EMBLEM_TEST_WORD", "hello"}},
                         .log = log,
                         .timeout_seconds = timeout_seconds});
}

TEST(Subprocess, OutputOfBothKindsGoesToTheLogAndTheEnvironmentIsExtended) {
  const TempFolder folder;
  const auto result = run_shell("echo $EMBLEM_TEST_WORD; echo to stderr >&2", folder.path("log"));
  EXPECT_TRUE(result.succeeded());
  EXPECT_EQ(read_text_file(folder.path("log")), "hello\nto stderr\n");
}

TEST(Subprocess, DistinguishesAnExitStatusFromASignal) {
  const auto exited = run_shell("exit 3");
  EXPECT_EQ(exited.end, SubprocessEnd::kExited);
  EXPECT_EQ(to_text(exited), "exit status 3");
  const auto killed = run_shell("kill -9 $$");
  EXPECT_EQ(killed.end, SubprocessEnd::kKilledBySignal);
  EXPECT_EQ(to_text(killed), "killed by signal 9 (Killed)");
  EXPECT_FALSE(killed.succeeded());
}

TEST(Subprocess, ATimeoutEndsItAndItsChildren) {
  const auto result = run_shell("sleep 60 & sleep 60", "", 0.1);
  EXPECT_EQ(result.end, SubprocessEnd::kTimedOut);
  EXPECT_LT(result.seconds, 60);
  EXPECT_FALSE(result.succeeded());
}

TEST(Subprocess, MemoryAndTimeAreThoseOfTheProgram) {
  const auto result = run_shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
  EXPECT_GT(result.cpu_seconds, 0);
  EXPECT_GT(result.seconds, 0);
  EXPECT_GT(result.peak_resident_bytes, 100 << 10);
}

// The message of the Error that starting `program` throws.
std::string start_error(const std::string& program) {
  try {
    run_subprocess({.arguments = {program}});
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Subprocess, AProgramThatCannotBeStartedIsAnErrorWithItsReason) {
  const TempFolder folder;
  write_text_file_atomically(folder.path("text"), "not a program");
  EXPECT_EQ(start_error("/nowhere/emblem"),
            "cannot start /nowhere/emblem: No such file or directory");
  EXPECT_EQ(start_error("no-such-program-in-path"),
            "cannot start no-such-program-in-path: No such file or directory");
  EXPECT_EQ(start_error(folder.path("text")),
            "cannot start " + folder.path("text") + ": Permission denied");
}

TEST(Subprocess, AnExitStatusOf127IsAResult) { EXPECT_EQ(run_shell("exit 127").status, 127); }

}  // namespace
}  // namespace emblem
