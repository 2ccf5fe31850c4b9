#include "data/format/columnar/orc_readers.h"

#include "emblem/error.h"

#ifdef EMBLEM_WITH_ARROW
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "core/files/byte_io.h"
#include "core/files/file_descriptor.h"
#include "core/memory/host_vector.h"
#include "data/format/columnar/orc_channel.h"
#include "data/format/columnar/orc_process.h"

namespace emblem {
namespace {

[[noreturn]] void fail_to_start(const std::string& program, const std::string& why) {
  throw Error(ErrorCode::kUnavailable,
              cat("cannot start ", program, " as a reader of ORC files: ", why));
}

// What posix_spawn is told, freed with it.
class SpawnSettings {
 public:
  explicit SpawnSettings(int input) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    for (const int output : {STDOUT_FILENO, STDERR_FILENO})
      ::posix_spawn_file_actions_addopen(&actions_, output, "/dev/null", O_WRONLY, 0);
    ::posix_spawnattr_init(&attributes_);
    // Ctrl-C is for the process that asks; its handlers and masks are not the reader's.
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    sigset_t signals;
    ::sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// A reader; ends with this process, whose end of the socket is closed then. Not a ChildProcess,
// which is killed with the thread that started it: any thread uses a reader. Nor is it forked, which
// takes long and much memory in a process with large tables.
class OrcProcess {
 public:
  explicit OrcProcess(const std::vector<std::string>& command) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      fail_to_start(command[0], std::strerror(errno));
    socket_ = FileDescriptor(ends[0]);
    FileDescriptor other(ends[1]);
    std::vector<char*> arguments;
    for (const std::string& argument : command)
      arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    const SpawnSettings settings(other.get());
    const int error = ::posix_spawn(&process_, command[0].c_str(), settings.actions(),
                                    settings.attributes(), arguments.data(), environ);
    if (error != 0) {
      process_ = -1;
      fail_to_start(command[0], std::strerror(error));
    }
    other.close();
    OrcMessage ready;
    if (!channel().receive(ready) || ready.kind != OrcMessageKind::kReady)
      fail_to_start(command[0], "it does not answer; is it this version of Emblem?");
  }
  ~OrcProcess() { end(); }
  OrcProcess(const OrcProcess&) = delete;
  OrcProcess& operator=(const OrcProcess&) = delete;

  OrcChannel channel() const { return OrcChannel(socket_.get()); }

  // Between requests nothing arrives but its end.
  bool is_alive() const {
    pollfd waiting{socket_.get(), POLLIN, 0};
    return ::poll(&waiting, 1, 0) == 0;
  }

  // The signal of which it has died; 0: of another cause, or it was still running.
  int end() {
    if (process_ < 0) return 0;
    socket_.close();
    ::kill(process_, SIGTERM);
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) continue;
    process_ = -1;
    return WIFSIGNALED(status) && WTERMSIG(status) != SIGTERM ? WTERMSIG(status) : 0;
  }

 private:
  FileDescriptor socket_{-1};
  pid_t process_ = -1;
};

struct Pool {
  std::mutex mutex;
  std::vector<std::string> command;
  std::vector<std::unique_ptr<OrcProcess>> idle;
};

// Never destroyed: a process that was forked from this one must not end its readers.
Pool& pool() {
  static Pool& instance = *new Pool;
  return instance;
}

std::unique_ptr<OrcProcess> take_process(const std::string& place) {
  std::vector<std::string> command;
  {
    const std::lock_guard lock(pool().mutex);
    while (!pool().idle.empty()) {
      std::unique_ptr<OrcProcess> process = std::move(pool().idle.back());
      pool().idle.pop_back();
      if (process->is_alive()) return process;
    }
    command = pool().command;
  }
  if (command.empty())
    throw Error(ErrorCode::kUnsupported,
                cat(place,
                    ": ORC files are read by a program of its own; name it by "
                    "RuntimeOptions::orc_reader"));
  return std::make_unique<OrcProcess>(command);
}

void give_back(std::unique_ptr<OrcProcess> process) {
  const std::lock_guard lock(pool().mutex);
  if (!pool().command.empty()) pool().idle.push_back(std::move(process));
}

// Sends the bytes of the file that the reader asks for.
bool serve_read(OrcChannel channel, ArrowInput& file, const OrcMessage& asked) {
  const int64_t most =
      std::max<int64_t>(0, file.file().bytes() - std::max<int64_t>(0, asked.first));
  HostVector<char> bytes(static_cast<size_t>(std::clamp<int64_t>(asked.second, 0, most)));
  const auto got = file.ReadAt(asked.first, asked.second, bytes.data());
  if (!got.ok()) return channel.send(OrcMessageKind::kProblem, got.status().message());
  return channel.send({OrcMessageKind::kBytes, *got}) &&
         channel.send(bytes.data(), static_cast<size_t>(*got));
}

// One request and its answer.
class OrcRequest {
 public:
  OrcRequest(ArrowInput& file, std::string place)
      : file_(file), place_(std::move(place)), process_(take_process(place_)) {}

  // The first message of the answer, of `kind`.
  OrcMessage ask(OrcMessageKind asked, const std::string& details, OrcMessageKind kind) {
    OrcChannel channel = process_->channel();
    require(channel.send({asked, file_.file().bytes(), static_cast<int64_t>(details.size())}) &&
            channel.send(details.data(), details.size()));
    OrcMessage answer;
    for (;;) {
      require(channel.receive(answer));
      if (answer.kind != OrcMessageKind::kRead) break;
      require(serve_read(channel, file_, answer));
    }
    if (answer.kind == OrcMessageKind::kProblem) {
      const std::string problem = receive_text(answer);
      give_back(std::move(process_));
      throw arrow_error(place_, problem);
    }
    require(answer.kind == kind);
    return answer;
  }

  std::string receive_text(const OrcMessage& answer) {
    require(answer.first >= 0 && answer.first <= kMostText);
    std::string text;
    require(process_->channel().receive(text, answer.first));
    return text;
  }

  OrcChannel channel() const { return process_->channel(); }
  void end() { give_back(std::move(process_)); }

  // The reader is gone, or has damaged its own memory.
  void require(bool condition) {
    if (condition) return;
    const int signal = process_->end();
    if (signal == SIGKILL)
      throw Error(ErrorCode::kUnavailable,
                  cat(place_, " cannot be read: its reader was killed; has memory run out?"));
    throw Error(ErrorCode::kCorruption,
                cat(place_, " cannot be read: the file is damaged",
                    signal == 0 ? "" : cat(" (its reader: ", ::strsignal(signal), ")")));
  }

 private:
  static constexpr int64_t kMostText = int64_t{1} << 28;

  ArrowInput& file_;
  const std::string place_;
  std::unique_ptr<OrcProcess> process_;
};

// The columns as they arrive.
class ChannelInput final : public arrow::io::InputStream {
 public:
  explicit ChannelInput(OrcChannel channel) : channel_(channel) {}

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return at_; }
  arrow::Result<int64_t> Read(int64_t count, void* out) override {
    if (!channel_.receive(out, static_cast<size_t>(count)))
      return arrow::Status::IOError("the reader is gone");
    at_ += count;
    return count;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t count) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(count));
    ARROW_RETURN_NOT_OK(Read(count, buffer->mutable_data()));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }

 private:
  OrcChannel channel_;
  int64_t at_ = 0;
};

arrow::Result<std::shared_ptr<arrow::RecordBatch>> receive_columns(OrcChannel channel) {
  arrow::ipc::IpcReadOptions options;
  options.use_threads = false;
  ARROW_ASSIGN_OR_RAISE(const auto reader, arrow::ipc::RecordBatchStreamReader::Open(
                                               std::make_shared<ChannelInput>(channel), options));
  std::shared_ptr<arrow::RecordBatch> batch, none;
  ARROW_RETURN_NOT_OK(reader->ReadNext(&batch));
  ARROW_RETURN_NOT_OK(reader->ReadNext(&none));
  if (batch == nullptr || none != nullptr) return arrow::Status::Invalid("not one batch");
  return batch;
}

}  // namespace

OrcLayout read_orc_layout(ArrowInput& file, const std::string& place) {
  OrcRequest request(file, place);
  const std::string text =
      request.receive_text(request.ask(OrcMessageKind::kLayout, "", OrcMessageKind::kBytes));
  request.end();
  OrcLayout layout;
  ByteReader stored(text, "the layout of an ORC file");
  stored.read(layout.rows);
  stored.read_all(layout.stripe_rows);
  const std::string_view schema = stored.read_text();
  arrow::io::BufferReader input(arrow::Buffer::FromString(std::string(schema)));
  arrow::ipc::DictionaryMemo dictionaries;
  layout.schema = value_of(arrow::ipc::ReadSchema(&input, &dictionaries), place);
  return layout;
}

std::shared_ptr<arrow::RecordBatch> read_orc_stripe(ArrowInput& file, int stripe,
                                                    const std::vector<int>& columns,
                                                    const std::string& place) {
  OrcRequest request(file, place);
  ByteWriter asked;
  asked.add(int64_t{stripe}).add_all(columns);
  request.ask(OrcMessageKind::kStripe, asked.bytes(), OrcMessageKind::kColumns);
  auto batch = receive_columns(request.channel());
  if (batch.status().IsOutOfMemory()) throw arrow_error(place, batch.status().message());
  request.require(batch.ok());
  request.end();
  return std::move(batch).ValueUnsafe();
}

OrcReaders::OrcReaders(std::vector<std::string> command) : command_(std::move(command)) {
  const std::lock_guard lock(pool().mutex);
  pool().command = command_;
}

OrcReaders::~OrcReaders() {
  const std::lock_guard lock(pool().mutex);
  pool().command.clear();
  pool().idle.clear();
}

}  // namespace emblem

#else

namespace emblem {

OrcReaders::OrcReaders(std::vector<std::string> command) : command_(std::move(command)) {}
OrcReaders::~OrcReaders() = default;

}  // namespace emblem

#endif
