// Fuzzes what the bytes of a gRPC connection meet: HTTP/2 frames, gRPC's messages in them,
// compression. The first byte chooses how the client behaves; each further one how many bytes
// arrive at once. Whatever comes in, the server holds no more than its limits.
#include <cstdlib>
#include <cstring>

#include "serve/grpc/compression.h"
#include "serve/grpc/framing.h"
#include "serve/grpc/status.h"
#include "serve/http2/session.h"

namespace emblem {
namespace {

constexpr size_t kBudget = 1 << 22, kLargestMessage = 1 << 20;

void require(bool promise) {
  if (!promise) std::abort();
}

// Sends each message back, expanded and compressed again, or refuses the stream.
class Echo final : public Http2Handler {
 public:
  Echo(Http2Stream& stream, const Http2Headers& headers, MemoryBudget& budget)
      : stream_(stream), budget_(budget), reader_(kLargestMessage, &budget) {
    parse_grpc_timeout(headers.find("grpc-timeout"));
    encoding_ = grpc_encoding_from_name(headers.find("grpc-encoding")).value_or(encoding_);
    accepts(headers.find("grpc-accept-encoding"), encoding_);
    stream_.respond({{":status", "200"}});
  }

  void on_data(std::span<const std::byte> bytes) override {
    stream_.consume(bytes.size());
    if (is_over_) return;
    try {
      while (!bytes.empty()) {
        if (auto message = reader_.read(bytes)) answer(std::move(*message));
      }
    } catch (const Error& error) {
      finish(percent_encoded(error.what()));
    }
  }
  void on_end() override {
    if (!is_over_) finish("");
  }
  void on_closed() override {}

 private:
  void answer(GrpcMessage message) {
    require(message.size() <= kLargestMessage);
    message = GrpcDecoding(std::move(message), encoding_, kLargestMessage, &budget_).take();
    require(message.size() <= kLargestMessage);
    MemoryBudget::Lease lease(budget_);
    lease.grow(message.size());
    std::string framed(kGrpcPrefixBytes, '\0');
    framed.append(reinterpret_cast<const char*>(message.bytes().data()), message.size());
    write_prefix(framed, false);
    compress(framed, encoding_);
    stream_.write(std::move(framed), std::move(lease));
  }
  void finish(const std::string& text) {
    is_over_ = true;
    stream_.finish({{"grpc-status", "0"}, {"grpc-message", text}});
  }

  Http2Stream& stream_;
  MemoryBudget& budget_;
  GrpcFrameReader reader_;
  ContentEncoding encoding_ = ContentEncoding::kGzip;
  bool is_over_ = false;
};

void run(std::span<const uint8_t> input) {
  const bool reads = input[0] & 1, is_polite = input[0] & 2, drains = input[0] & 4;
  input = input.subspan(1);
  MemoryBudget budget(kBudget);
  {
    std::chrono::steady_clock::time_point now{};
    Http2Limits limits;
    limits.max_streams = 8;
    limits.clock = [&] { return now; };
    Http2Session session(
        limits,
        [&](Http2Stream& stream, const Http2Headers& headers) {
          require(headers.bytes() <= limits.max_header_bytes);
          return std::make_shared<Echo>(stream, headers, budget);
        },
        [] {});
    if (is_polite) {
      const std::string_view preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
      require(session.receive(std::as_bytes(std::span(preface))));
    }
    bool continues = true;
    while (continues && !input.empty()) {
      const size_t some = std::min<size_t>(input.size(), size_t{1} + input[0] * 8);
      continues = session.receive(std::as_bytes(input.first(some)));
      input = input.subspan(some);
      require(session.streams() <= limits.max_streams + 1);
      std::string output;
      if (reads) session.take_output(output, 1 << 16);
      now += std::chrono::milliseconds(500);
      continues = continues && session.tick(now);
    }
    if (drains) session.drain();
    std::string output;
    session.take_output(output, 1 << 20);
  }
  require(budget.used() == 0);
}

}  // namespace
}  // namespace emblem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    emblem::run({data, size});
  } catch (const emblem::Error&) {
    // The connection is closed.
  }
  return 0;
}
