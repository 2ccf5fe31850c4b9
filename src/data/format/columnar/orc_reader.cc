// The process that reads ORC files.
#include "data/format/columnar/orc_readers.h"

#ifdef EMBLEM_WITH_ARROW
#include <arrow/adapters/orc/adapter.h>
#include <arrow/buffer.h>
#include <arrow/io/buffered.h>
#include <arrow/io/interfaces.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "core/files/byte_io.h"
#include "data/format/columnar/orc_channel.h"
#endif

namespace emblem {

bool is_orc_reader(int argc, char** argv) {
  return argc == 2 && argv[1] == std::string(kOrcReaderArgument);
}

#ifdef EMBLEM_WITH_ARROW
namespace {

constexpr int64_t kMostRequestBytes = int64_t{1} << 24;

arrow::Status lost() { return arrow::Status::IOError("the parent process has ended"); }

// The file as the process that asks reads it.
class AskedFile final : public arrow::io::RandomAccessFile {
 public:
  AskedFile(OrcChannel& channel, int64_t bytes) : channel_(channel), bytes_(bytes) {}

  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return at_; }
  arrow::Status Seek(int64_t position) override {
    at_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> GetSize() override { return bytes_; }
  arrow::Result<int64_t> Read(int64_t count, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(at_, count, out));
    at_ += got;
    return got;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t count) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(at_, count));
    at_ += buffer->size();
    return buffer;
  }
  using arrow::io::RandomAccessFile::ReadAt;
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t count, void* out) override {
    const std::lock_guard lock(mutex_);
    OrcMessage answer;
    if (!channel_.send({OrcMessageKind::kRead, position, count}) || !channel_.receive(answer))
      return lost();
    if (answer.kind == OrcMessageKind::kProblem) {
      std::string problem;
      if (!channel_.receive(problem, answer.first)) return lost();
      return arrow::Status::IOError(problem);
    }
    if (answer.first > count || !channel_.receive(out, static_cast<size_t>(answer.first)))
      return lost();
    return answer.first;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t count) override {
    count = std::min(count, bytes_ - position);
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(std::max<int64_t>(count, 0)));
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position, count, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(got));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }

 private:
  OrcChannel& channel_;
  std::mutex mutex_;
  const int64_t bytes_;
  int64_t at_ = 0;
  bool closed_ = false;
};

class ChannelOutput final : public arrow::io::OutputStream {
 public:
  explicit ChannelOutput(OrcChannel& channel) : channel_(channel) {}

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return at_; }
  using arrow::io::OutputStream::Write;
  arrow::Status Write(const void* data, int64_t count) override {
    at_ += count;
    return channel_.send(data, static_cast<size_t>(count)) ? arrow::Status::OK() : lost();
  }

 private:
  OrcChannel& channel_;
  int64_t at_ = 0;
};

using OrcFileReader = arrow::adapters::orc::ORCFileReader;

arrow::Result<std::unique_ptr<OrcFileReader>> open_reader(OrcChannel& channel, int64_t bytes) {
  return OrcFileReader::Open(std::make_shared<AskedFile>(channel, bytes),
                             arrow::default_memory_pool());
}

// The answer to kLayout: the rows, the rows of each stripe, the schema as Arrow writes it.
arrow::Result<std::string> read_layout(OrcChannel& channel, const OrcMessage& request) {
  ARROW_ASSIGN_OR_RAISE(const auto reader, open_reader(channel, request.first));
  ARROW_ASSIGN_OR_RAISE(const auto schema, reader->ReadSchema());
  ARROW_ASSIGN_OR_RAISE(const auto stored, arrow::ipc::SerializeSchema(*schema));
  std::vector<int64_t> stripe_rows;
  for (int64_t i = 0; i < reader->NumberOfStripes(); ++i)
    stripe_rows.push_back(reader->GetStripeInformation(i).num_rows);
  ByteWriter layout;
  layout.add(int64_t{reader->NumberOfRows()}).add_all(stripe_rows).add_text(stored->ToString());
  return std::move(layout).bytes();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_stripe(OrcChannel& channel,
                                                               const OrcMessage& request) {
  std::string text;
  if (request.second > kMostRequestBytes || !channel.receive(text, request.second)) return lost();
  ByteReader asked(text, "a request for a stripe");
  int64_t stripe = 0;
  std::vector<int> columns;
  asked.read(stripe);
  asked.read_all(columns);
  ARROW_ASSIGN_OR_RAISE(const auto reader, open_reader(channel, request.first));
  return reader->ReadStripe(stripe, columns);
}

arrow::Status send_columns(OrcChannel& channel, const arrow::RecordBatch& batch) {
  if (!channel.send({OrcMessageKind::kColumns})) return lost();
  constexpr int64_t kBufferBytes = 1 << 16;  // for what is between columns
  ARROW_ASSIGN_OR_RAISE(const auto output, arrow::io::BufferedOutputStream::Create(
                                               kBufferBytes, arrow::default_memory_pool(),
                                               std::make_shared<ChannelOutput>(channel)));
  arrow::ipc::IpcWriteOptions options;
  options.use_threads = false;
  ARROW_ASSIGN_OR_RAISE(const auto writer,
                        arrow::ipc::MakeStreamWriter(output, batch.schema(), options));
  ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(batch));
  ARROW_RETURN_NOT_OK(writer->Close());
  return output->Flush();
}

// What is wrong with the file is an answer; other problems are a status, and end this process.
arrow::Status answer(OrcChannel& channel, const OrcMessage& request) {
  std::shared_ptr<arrow::RecordBatch> columns;
  std::string layout, problem;
  try {
    if (request.kind == OrcMessageKind::kLayout) {
      auto found = read_layout(channel, request);
      if (found.ok()) layout = *found;
      problem = found.status().message();
    } else {
      auto found = read_stripe(channel, request);
      if (found.ok()) columns = *found;
      problem = found.status().message();
    }
  } catch (const std::exception& error) {
    problem = cat("the reader of ORC files failed: ", error.what());
  }
  if (columns != nullptr) return send_columns(channel, *columns);
  const bool is_sent = layout.empty() ? channel.send(OrcMessageKind::kProblem, problem)
                                      : channel.send(OrcMessageKind::kBytes, layout);
  return is_sent ? arrow::Status::OK() : lost();
}

}  // namespace

int run_orc_reader() {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  OrcChannel channel(STDIN_FILENO);
  if (!channel.send({OrcMessageKind::kReady})) return 1;
  OrcMessage request;
  while (channel.receive(request))
    if (!answer(channel, request).ok()) return 1;
  return 0;
}

#else

int run_orc_reader() { return 1; }

#endif

}  // namespace emblem
