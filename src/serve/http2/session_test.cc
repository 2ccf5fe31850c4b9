#include "serve/http2/session.h"

#include <gmock/gmock.h>

#include <map>

#include "emblem/error.h"
#include "serve/http2/frames_test.h"

namespace emblem {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::string_literals;

// Records what it is told.
struct Recorder : Http2Handler {
  Recorder(Http2Stream& its_stream, Http2Headers its_headers)
      : stream(its_stream), headers(std::move(its_headers)) {}
  void on_data(std::span<const std::byte> bytes) override {
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void on_end() override { has_ended = true; }
  void on_sent() override { ++sent; }
  void on_closed() override { ++closed; }
  void on_drain() override { ++drained; }

  Http2Stream& stream;
  Http2Headers headers;
  std::string data;
  bool has_ended = false;
  int sent = 0, closed = 0, drained = 0;
};

// A session with a client's preface, and what it did.
struct TestSession {
  explicit TestSession(Http2Limits limits = {}, bool begins = true) {
    limits.clock = [this] { return now; };
    session.emplace(
        limits,
        [this](Http2Stream& stream, Http2Headers headers) {
          handlers.push_back(std::make_shared<Recorder>(stream, std::move(headers)));
          return handlers.back();
        },
        [] {});
    if (begins) {
      EXPECT_TRUE(receive(kPreface + frame(kSettingsFrame, 0, 0)));
      output();
    }
  }

  bool receive(std::string_view bytes) {
    return session->receive(std::as_bytes(std::span(bytes.data(), bytes.size())));
  }
  // A request without a body.
  bool open(uint32_t stream, uint8_t flags = kEndHeaders) {
    return receive(frame(kHeadersFrame, flags, stream, request_block("/a")));
  }
  std::vector<Frame> output() {
    std::string bytes;
    session->take_output(bytes, 1 << 20);
    return split_frames(bytes);
  }
  // The frames of one type that are to be sent.
  std::vector<Frame> output(FrameType type) {
    std::vector<Frame> all = output();
    std::erase_if(all, [&](const Frame& one) { return one.type != type; });
    return all;
  }
  std::string goaway_code() {
    const auto frames = output(kGoawayFrame);
    return frames.empty() ? "" : frames.back().payload.substr(4, 4);
  }

  std::chrono::steady_clock::time_point now{};
  std::vector<std::shared_ptr<Recorder>> handlers;
  std::optional<Http2Session> session;
};

TEST(Http2Session, SaysItsLimits) {
  TestSession test({.max_streams = 7, .max_header_bytes = 1000, .stream_window = 70'000}, false);
  const auto frames = test.output();
  ASSERT_GE(frames.size(), 1u);
  EXPECT_EQ(frames[0].type, kSettingsFrame);
  std::map<int, uint32_t> settings;
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(frames[0].payload[at]); };
  for (size_t at = 0; at + 6 <= frames[0].payload.size(); at += 6)
    settings[byte(at) << 8 | byte(at + 1)] = static_cast<uint32_t>(
        byte(at + 2) << 24 | byte(at + 3) << 16 | byte(at + 4) << 8 | byte(at + 5));
  EXPECT_EQ(settings.at(3), 7u);       // MAX_CONCURRENT_STREAMS
  EXPECT_EQ(settings.at(4), 70'000u);  // INITIAL_WINDOW_SIZE
  EXPECT_EQ(settings.at(6), 1000u);    // MAX_HEADER_LIST_SIZE
}

TEST(Http2Session, PassesARequestOnHoweverItsBytesArrive) {
  const std::string block = request_block("/a", {{"x", std::string(200, 'y')}});
  const std::string bytes = kPreface + frame(kSettingsFrame, 0, 0) +
                            frame(kHeadersFrame, 0, 1, block.substr(0, 10)) +
                            frame(kContinuationFrame, kEndHeaders, 1, block.substr(10)) +
                            frame(kDataFrame, 0, 1, "abc") + frame(kDataFrame, kEndStream, 1, "d");
  // nghttp2 counts a CONTINUATION again for each part in which its head arrives, so not 1 by 1.
  for (const size_t step : {size_t{2}, size_t{7}, bytes.size()}) {
    TestSession test({}, false);
    EXPECT_FALSE(test.session->has_begun());
    for (size_t at = 0; at < bytes.size(); at += step)
      ASSERT_TRUE(test.receive(std::string_view(bytes).substr(at, step)));
    EXPECT_TRUE(test.session->has_begun());
    ASSERT_EQ(test.handlers.size(), 1u);
    EXPECT_EQ(test.handlers[0]->headers.find(":path"), "/a");
    EXPECT_EQ(test.handlers[0]->headers.find("x"), std::string(200, 'y'));
    EXPECT_EQ(test.handlers[0]->headers.find("z"), "");
    EXPECT_EQ(test.handlers[0]->data, "abcd");
    EXPECT_TRUE(test.handlers[0]->has_ended);
  }
}

TEST(Http2Session, ReadsByteByByte) {
  const std::string bytes = kPreface + frame(kSettingsFrame, 0, 0) +
                            frame(kHeadersFrame, kEndHeaders, 1, request_block("/a")) +
                            frame(kDataFrame, 0, 1, "abc");
  TestSession test({}, false);
  for (const char& byte : bytes) ASSERT_TRUE(test.receive({&byte, 1}));
  EXPECT_EQ(test.handlers.at(0)->data, "abc");
}

TEST(Http2Session, SendsResponsesWithTrailers) {
  TestSession test;
  test.open(1, kEndHeaders | kEndStream);
  Http2Stream& stream = test.handlers.at(0)->stream;
  stream.respond({{":status", "200"}});
  EXPECT_THAT(test.output(kHeadersFrame), testing::SizeIs(1));
  stream.write("abc", {});
  EXPECT_EQ(stream.unsent(), 3u);
  EXPECT_EQ(test.output(kDataFrame).at(0).payload, "abc");
  EXPECT_EQ(test.handlers[0]->sent, 1);
  stream.write("de", {});
  stream.finish({{"grpc-status", "0"}});
  const auto frames = test.output();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].payload, "de");
  EXPECT_EQ(frames[1].type, kHeadersFrame);
  EXPECT_EQ(frames[1].flags & kEndStream, kEndStream);
  EXPECT_EQ(test.handlers[0]->closed, 1);
  EXPECT_EQ(test.session->streams(), 0u);
}

// A refusal does not wait for the rest of the request.
TEST(Http2Session, StopsTheClientOnceItIsAnswered) {
  TestSession test;
  test.open(1);
  test.handlers.at(0)->stream.respond_only({{":status", "415"}});
  const auto frames = test.output();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[1].type, kRstStreamFrame);
  EXPECT_EQ(frames[1].payload, big_endian(0));
  EXPECT_EQ(test.handlers[0]->closed, 1);
}

TEST(Http2Session, EndsAtABadPreface) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(100, '\0'),
        kPreface + frame(kPingFrame, 0, 0, "12345678")}) {
    TestSession test({}, false);
    EXPECT_FALSE(test.receive(bytes) && test.goaway_code().empty());
  }
}

TEST(Http2Session, EndsAtFramesThatCannotBe) {
  const std::vector<std::string> all = {
      frame(kPingFrame, 0, 0, "short"),
      frame(kSettingsFrame, 0, 0, "12345"),
      frame(kWindowUpdateFrame, 0, 0, big_endian(0)),
      frame(kDataFrame, 0, 0, "on no stream"),
      frame(kDataFrame, 0, 5, "on a stream that is not there"),
      frame(kHeadersFrame, kEndHeaders, 2, request_block("/a")),  // even
      frame(kContinuationFrame, kEndHeaders, 1, "without HEADERS"),
      frame(kPushPromiseFrame, kEndHeaders, 1, big_endian(2)),
      frame(kHeadersFrame, kEndHeaders, 1, "\xff\xff\xff\xff\xff"),  // no HPACK
      frame(kHeadersFrame, 0, 1, "\x83") + frame(kPingFrame, 0, 0, "12345678"),
      big_endian(20'000, 3) + std::string("\0\0\0\0\0\1", 6) +
          std::string(20'000, 'x'),  // oversized
  };
  for (size_t i = 0; i < all.size(); ++i) {
    TestSession test;
    const bool continues = test.receive(all[i]);
    EXPECT_FALSE(continues && test.goaway_code().empty()) << "frame " << i;
  }
}

TEST(Http2Session, RefusesHeadersAboveTheLimit) {
  TestSession test({.max_header_bytes = 500});
  test.receive(
      frame(kHeadersFrame, kEndHeaders, 1, request_block("/a", {{"x", std::string(400, 'y')}})));
  EXPECT_THAT(test.handlers, IsEmpty());
  EXPECT_THAT(test.output(kHeadersFrame), testing::SizeIs(1));
  EXPECT_EQ(test.session->streams(), 0u);
}

TEST(Http2Session, EndsAtAFloodOfContinuations) {
  TestSession test;
  bool continues = test.receive(frame(kHeadersFrame, 0, 1, request_block("/a")));
  int sent = 0;
  while (continues && sent < 1000) {
    continues = test.receive(frame(kContinuationFrame, 0, 1, literal("x", "y")));
    ++sent;
  }
  EXPECT_LT(sent, 20);
  EXPECT_THAT(test.handlers, IsEmpty());
}

TEST(Http2Session, RefusesStreamsAboveTheLimit) {
  TestSession test({.max_streams = 3});
  test.receive(frame(kSettingsFrame, kAck, 0));
  for (uint32_t stream : {1, 3, 5}) EXPECT_TRUE(test.open(stream));
  const bool continues = test.open(7);
  EXPECT_EQ(test.handlers.size(), 3u);
  EXPECT_FALSE(continues && test.goaway_code().empty());
}

TEST(Http2Session, EndsWhenStreamsAreResetTooOften) {
  TestSession test({.reset_burst = 100, .resets_per_second = 1});
  const std::string cancel = big_endian(8);
  uint32_t stream = 1;
  while (stream < 10'000 && test.open(stream) &&
         test.receive(frame(kRstStreamFrame, 0, stream, cancel)))
    stream += 2;
  EXPECT_LT(stream, 300u);
  EXPECT_EQ(test.goaway_code(), big_endian(11));  // ENHANCE_YOUR_CALM
  EXPECT_LE(test.session->streams(), 1u);
  test.session.reset();
  for (const auto& handler : test.handlers) EXPECT_EQ(handler->closed, 1);
}

// The client resets nothing itself: it makes the server do so by frames that break the rules.
TEST(Http2Session, EndsWhenItIsMadeToResetStreamsTooOften) {
  TestSession test({.reset_burst = 100, .resets_per_second = 1});
  uint32_t stream = 1;
  while (stream < 10'000 && test.open(stream) &&
         test.receive(frame(kWindowUpdateFrame, 0, stream, big_endian(0)))) {
    test.output();
    stream += 2;
  }
  EXPECT_LT(stream, 1000u);
}

TEST(Http2Session, EndsAtFloodsOfFramesWithoutUse) {
  const std::vector<std::string> all = {
      frame(kPingFrame, 0, 0, "12345678"),
      frame(kSettingsFrame, 0, 0),
      frame(kPriorityFrame, 0, 9, big_endian(1) + "\x10"),
      frame(kWindowUpdateFrame, 0, 0, big_endian(1)),
      frame(kDataFrame, 0, 1),
      frame(kDataFrame, kPadded, 1, std::string(1, '\x3') + "\0\0\0"s),  // padding alone
      frame(FrameType{0x21}, 0, 0, "what is this"),
      frame(FrameType{0xff}, 0, 1),
  };
  for (const std::string& one : all) {
    TestSession test({.frame_burst = 200, .frames_per_second = 1});
    test.open(1);
    int sent = 0;
    while (sent < 10'000 && test.receive(one)) {
      test.output();
      ++sent;
    }
    EXPECT_LT(sent, 400) << static_cast<int>(one[3]);
  }
}

TEST(Http2Session, BearsFramesWithoutUseAmongOthers) {
  TestSession test({.frame_burst = 50, .frames_per_second = 1});
  for (uint32_t stream = 1; stream < 2000; stream += 2) {
    ASSERT_TRUE(test.open(stream, kEndHeaders | kEndStream));
    ASSERT_TRUE(test.receive(frame(kPingFrame, 0, 0, "12345678") +
                             frame(kWindowUpdateFrame, 0, 0, big_endian(10))));
    test.handlers.back()->stream.respond_only({{":status", "200"}});
    test.output();
  }
}

// Answers to PING wait for a client that does not read; their number is limited.
TEST(Http2Session, HoldsFewAnswersForAClientThatDoesNotRead) {
  TestSession test({.frame_burst = 1'000'000});
  int sent = 0;
  while (sent < 100'000 && test.receive(frame(kPingFrame, 0, 0, "12345678"))) ++sent;
  EXPECT_LT(sent, 1000);
}

TEST(Http2Session, TakesNoMoreThanItsWindow) {
  TestSession test({.stream_window = 65'535, .connection_window = 1 << 20});
  test.receive(frame(kSettingsFrame, kAck, 0));
  test.open(1);
  const std::string some(16'000, 'x');
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(test.receive(frame(kDataFrame, 0, 1, some)));
  for (const Frame& one : test.output(kWindowUpdateFrame)) EXPECT_EQ(one.stream, 0u);
  test.receive(frame(kDataFrame, 0, 1, some));
  EXPECT_THAT(test.output(kRstStreamFrame), testing::SizeIs(1));
  EXPECT_EQ(test.handlers[0]->closed, 1);
  for (int i = 0; i < 10; ++i) test.receive(frame(kDataFrame, 0, 1, some));
  EXPECT_EQ(test.handlers[0]->data.size(), 5 * some.size());
}

TEST(Http2Session, OpensItsWindowAsItsHandlerConsumes) {
  TestSession test;
  test.receive(frame(kSettingsFrame, kAck, 0));
  test.open(1);
  const std::string some(16'000, 'x');
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(test.receive(frame(kDataFrame, 0, 1, some)));
    test.handlers[0]->stream.consume(some.size());
    test.output();
  }
  EXPECT_EQ(test.handlers[0]->data.size(), 500 * some.size());
}

TEST(Http2Session, SendsNoMoreThanTheClientsWindow) {
  TestSession test;
  test.open(1, kEndHeaders | kEndStream);
  Http2Stream& stream = test.handlers[0]->stream;
  stream.respond({{":status", "200"}});
  stream.write(std::string(100'000, 'x'), {});
  stream.finish({{"grpc-status", "0"}});
  size_t sent = 0;
  for (const Frame& one : test.output(kDataFrame)) sent += one.payload.size();
  EXPECT_EQ(sent, 65'535u);
  test.receive(frame(kWindowUpdateFrame, 0, 0, big_endian(100'000)) +
               frame(kWindowUpdateFrame, 0, 1, big_endian(100'000)));
  for (const Frame& one : test.output(kDataFrame)) sent += one.payload.size();
  EXPECT_EQ(sent, 100'000u);
  EXPECT_EQ(test.handlers[0]->closed, 1);
  // A window above 2^31 - 1 is an error.
  EXPECT_FALSE(test.receive(frame(kWindowUpdateFrame, 0, 0, big_endian(0x7fffffff))) &&
               test.goaway_code().empty());
}

TEST(Http2Session, ResetsStreamsWhoseAnswerIsNotRead) {
  TestSession test({.timeout = seconds(30)});
  test.open(1, kEndHeaders | kEndStream);
  test.open(3, kEndHeaders | kEndStream);
  Http2Stream& stream = test.handlers[0]->stream;
  stream.respond({{":status", "200"}});
  MemoryBudget budget(1 << 20);
  MemoryBudget::Lease lease(budget);
  lease.grow(200'000);
  stream.write(std::string(200'000, 'x'), std::move(lease));
  test.output();
  test.now += seconds(30);
  EXPECT_TRUE(test.session->tick(test.now));
  EXPECT_EQ(test.handlers[0]->closed, 0);
  test.now += seconds(2);  // a second for each 64 KiB that was sent
  EXPECT_TRUE(test.session->tick(test.now));
  EXPECT_THAT(test.output(kRstStreamFrame), testing::SizeIs(1));
  EXPECT_EQ(test.handlers[0]->closed, 1);
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_EQ(test.handlers[1]->closed, 0);
}

TEST(Http2Session, EndsWhenAHeaderTakesTooLong) {
  TestSession test({.timeout = seconds(30)});
  test.receive(frame(kHeadersFrame, 0, 1, "\x83"));
  EXPECT_TRUE(test.session->tick(test.now + seconds(30)));
  EXPECT_FALSE(test.session->tick(test.now + seconds(31)));
}

TEST(Http2Session, DrainsWithGoaway) {
  TestSession test;
  test.open(1, kEndHeaders | kEndStream);
  test.session->drain();
  EXPECT_EQ(test.handlers[0]->drained, 1);
  EXPECT_EQ(test.goaway_code(), big_endian(0));
  test.open(3, kEndHeaders | kEndStream);  // too late
  EXPECT_EQ(test.handlers.size(), 1u);
  test.handlers[0]->stream.respond_only({{":status", "200"}});
  EXPECT_THAT(test.output(kHeadersFrame), testing::SizeIs(1));
  EXPECT_EQ(test.session->streams(), 0u);
}

TEST(Http2Session, ClosesItsStreamsAtItsEnd) {
  TestSession test;
  test.open(1);
  test.session.reset();
  EXPECT_EQ(test.handlers[0]->closed, 1);
}

}  // namespace
}  // namespace emblem
