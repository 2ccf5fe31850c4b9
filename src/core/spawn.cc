#include "core/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "core/file_descriptor.h"
#include "emblem/error.h"

namespace emblem {
namespace {

// Pointers for exec, which wants them to end with a null; `texts` must outlive them.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_of(const Spawn& program) {
  std::vector<std::string> all;
  for (const auto& [name, value] : program.environment) all.push_back(name + "=" + value);
  const auto is_replaced = [&](std::string_view name) {
    return std::any_of(program.environment.begin(), program.environment.end(),
                       [&](const auto& added) { return added.first == name; }) ||
           std::find(program.removed.begin(), program.removed.end(), name) != program.removed.end();
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!is_replaced(text.substr(0, text.find('=')))) all.emplace_back(text);
  }
  return all;
}

// What failed in the child before the program ran.
struct StartError {
  int error = 0;
  bool in_folder = false;  // could not change to it
};

// The child writes to it when exec fails; exec itself closes it, so that the parent reads nothing
// when the program was started.
struct StartErrors {
  StartErrors() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw Error(ErrorCode::kUnavailable, cat("cannot create a pipe: ", std::strerror(errno)));
    reader.emplace(ends[0]);
    writer.emplace(ends[1]);
  }
  std::optional<StartError> wait() {
    writer->close();
    StartError error;
    ssize_t got = 0;
    do got = ::read(reader->get(), &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    return got == sizeof(error) ? std::optional(error) : std::nullopt;
  }
  std::optional<FileDescriptor> reader, writer;
};

// Moves a descriptor above those of stdin, stdout and stderr, which dup2 will replace.
int above_standard(int descriptor) {
  return descriptor > STDERR_FILENO ? descriptor : fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
}

// Between fork and exec: nothing but system calls. Never returns.
[[noreturn]] void become(const Spawn& program, char** arguments, char** environment, int errors,
                         pid_t parent) {
  const auto fail = [errors](bool in_folder) {
    const StartError error{errno, in_folder};
    [[maybe_unused]] const ssize_t written = ::write(errors, &error, sizeof(error));
    _exit(EXIT_FAILURE);
  };
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(EXIT_FAILURE);  // it died before the line above
  const int input = above_standard(program.input >= 0 ? program.input
                                                      : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int output = above_standard(program.output);
  const int error_output = above_standard(program.error_output);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(error_output, STDERR_FILENO);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  if (!program.folder.empty() && chdir(program.folder.c_str()) != 0) fail(true);
  execvpe(arguments[0], arguments, environment);
  fail(false);
  _exit(EXIT_FAILURE);
}

}  // namespace

pid_t spawn(const Spawn& program) {
  EMBLEM_REQUIRE(!program.arguments.empty(), "a subprocess has no program to run");
  std::vector<std::string> arguments = program.arguments;
  std::vector<std::string> environment = environment_of(program);
  const std::vector<char*> argument_list = pointers_to(arguments);
  const std::vector<char*> environment_list = pointers_to(environment);
  StartErrors errors;
  const pid_t parent = getpid();
  const auto cannot_start = [&](int error) {
    return Error(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                 cat("cannot start ", arguments[0], ": ", std::strerror(error)));
  };
  const pid_t child = fork();
  if (child == 0)
    become(program, const_cast<char**>(argument_list.data()),
           const_cast<char**>(environment_list.data()), errors.writer->get(), parent);
  if (child < 0) throw cannot_start(errno);
  if (const auto failed = errors.wait()) {
    waitpid(child, nullptr, 0);
    if (!failed->in_folder) throw cannot_start(failed->error);
    throw Error(ErrorCode::kNotFound, cat("cannot start ", arguments[0], " in the folder ",
                                          program.folder, ": ", std::strerror(failed->error)));
  }
  return child;
}

}  // namespace emblem
