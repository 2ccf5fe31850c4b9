// Front ends and servers that lie to them.
#include "ps/remote/table_servers.h"

#include <gmock/gmock.h>

#include <atomic>

#include "core/threads/becomes_true_test.h"
#include "serve/http/server.h"

namespace emblem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const ModelId kModel{"m", 1, 77};

// Key k's row is {k, k}.
std::vector<std::byte> honest(const RowRequest& request) {
  return make_answer(request, [&](size_t t, std::span<float> rows, std::span<uint8_t> found) {
    const std::vector<int64_t>& keys = request.tables[t].keys;
    for (size_t i = 0; i < keys.size(); ++i) {
      found[i] = 1;
      rows[i * 2] = rows[i * 2 + 1] = static_cast<float>(keys[i]);
    }
  });
}

HttpResponse octets(std::string body) {
  HttpResponse response;
  response.content_type = "application/octet-stream";
  response.body = std::move(body);
  return response;
}

class FakeServer {
 public:
  using Answer = std::function<HttpResponse(const RowRequest&)>;
  FakeServer(PartRange parts, Answer answer, std::vector<ModelId> models = {kModel},
             DType row_type = DType::kF32)
      : status_(encode(StatusAnswer{parts, row_type, std::move(models)})),
        answer_(std::move(answer)) {
    HttpServerOptions options;
    options.address = "127.0.0.1";
    server_ = std::make_unique<HttpServer>(options, [this](HttpRequest request, HttpReply reply) {
      if (request.target == kStatusPath) {
        ++status_asked;
        if (!is_silent) reply(octets(status_));
        return;
      }
      ++asked;
      reply(answer_(decode_row_request(text_of(request.body))));
    });
  }
  TableServerAddress address() const { return {"127.0.0.1", server_->port()}; }

  std::atomic<int> asked{0}, status_asked{0};
  std::atomic<bool> is_silent{false};  // about its status

 private:
  const std::string status_;
  const Answer answer_;
  std::unique_ptr<HttpServer> server_;
};

HttpResponse honestly(const RowRequest& request) {
  HttpResponse response = octets("");
  response.tensors.push_back(honest(request));
  return response;
}

std::unique_ptr<TableServers> connect(std::initializer_list<const FakeServer*> servers) {
  TableServersOptions options;
  for (const FakeServer* server : servers) options.servers.push_back(server->address());
  options.timeout = std::chrono::seconds(60);
  return std::make_unique<TableServers>(options);
}

// The first floats of the rows of keys 0..9, or what went wrong.
std::string fetch(TableServers& servers) {
  const std::vector<int64_t> keys = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<float> rows(20, -1.0f);
  std::vector<uint8_t> found(10);
  const RowFetch one{"t", 2, TableKind::kStatic, keys, rows, found};
  try {
    servers.fetch(kModel, {&one, 1});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    return error.what();
  }
  std::string text;
  for (size_t i = 0; i < 10; ++i) text += cat(found[i] != 0 ? "" : "!", rows[i * 2], " ");
  return text;
}

constexpr const char* kTableServersAll = "0 1 2 3 4 5 6 7 8 9 ";

TEST(TableServers, RowsComeFromTheServersOfTheirParts) {
  FakeServer low({0, 2048}, honestly), high({2048, 4096}, honestly);
  const auto servers = connect({&low, &high});
  EXPECT_EQ(fetch(*servers), kTableServersAll);
  EXPECT_EQ(low.asked, 1);
  EXPECT_EQ(high.asked, 1);
  EXPECT_EQ(servers->server(0).counts().failures, 0u);
}

TEST(TableServers, MissingPartsAreNamed) {
  FakeServer low({0, 100}, honestly), high({2048, 4096}, honestly, {{"m", 1, 78}});
  const auto servers = connect({&low, &high});
  EXPECT_THAT(servers->missing(kModel), ElementsAre(PartRange{100, 4096}));
  EXPECT_THAT(servers->problem(kModel),
              HasSubstr(cat("parts 100-4095 of model m version 1 are on no table server that "
                            "answers; ",
                            high.address().text(),
                            ", which has parts 2048-4095, has other files under this version")));
  EXPECT_THAT(fetch(*servers), HasSubstr("parts 100-4095"));
  EXPECT_EQ(high.asked, 0);
}

TEST(TableServers, ReplicasShareTheLookups) {
  FakeServer one({0, 4096}, honestly), two({0, 4096}, honestly), half({0, 2048}, honestly);
  for (const bool is_split : {false, true}) {
    const auto servers = is_split ? connect({&one, &two, &half}) : connect({&one, &two});
    const int before[] = {one.asked, two.asked};
    for (int i = 0; i < 200; ++i) ASSERT_EQ(fetch(*servers), kTableServersAll);
    EXPECT_GT(one.asked - before[0], 60);
    EXPECT_GT(two.asked - before[1], 60);
  }
}

TEST(TableServers, RowsInDifferentTypesAreTold) {
  FakeServer low({0, 2048}, honestly), high({2048, 4096}, honestly, {kModel}, DType::kInt8);
  testing::internal::CaptureStderr();
  const auto servers = connect({&low, &high});
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, HasSubstr("give all the same --row-precision"));
  EXPECT_THAT(lines, HasSubstr(" has rows in "));
}

struct Lie {
  const char* name;
  FakeServer::Answer answer;
  const char* problem;
};

std::vector<Lie> lies() {
  const auto changed = [](auto change) {
    return [change](RowRequest request) {
      change(request);
      return honestly(request);
    };
  };
  return {
      {"fewer keys", changed([](RowRequest& r) { r.tables[0].keys.pop_back(); }), "were expected"},
      {"more keys", changed([](RowRequest& r) { r.tables[0].keys.resize(40000); }),
       "at most 65536"},
      {"another version", changed([](RowRequest& r) { r.model.version = 2; }), "of version 2"},
      {"other files", changed([](RowRequest& r) { r.model.content = 1; }), "not of 1 (content"},
      {"another request", changed([](RowRequest& r) { ++r.number; }), "to another request"},
      {"nothing", [](const RowRequest&) { return octets(""); }, "an answer of 0 bytes"},
      {"noise of the right size",
       [](const RowRequest& r) { return octets(std::string(answer_bytes(r), 'x')); },
       "does not begin as one"},
      {"a changed bit",
       [](const RowRequest& r) {
         HttpResponse response = honestly(r);
         response.tensors[0][40] ^= std::byte{1};
         return response;
       },
       "checksum does not match"},
      {"an error", [](const RowRequest&) { return error_response(500, "out of order"); },
       "status 500: {\"error\":\"out of order\"}"},
  };
}

TEST(TableServers, LiesAreErrors) {
  for (const Lie& lie : lies()) {
    SCOPED_TRACE(lie.name);
    FakeServer liar({0, 4096}, lie.answer);
    const auto servers = connect({&liar});
    EXPECT_THAT(fetch(*servers), HasSubstr(lie.problem));
    // Once more where the connection broke.
    EXPECT_LE(liar.asked, 2);
    EXPECT_EQ(servers->server(0).counts().failures, static_cast<uint64_t>(liar.asked));
    EXPECT_THAT(servers->metrics(), HasSubstr("emblem_table_lookups_failed_total 1\n"));
  }
}

TEST(TableServers, AReplicaAnswersInThePlaceOfALiar) {
  for (const Lie& lie : lies()) {
    SCOPED_TRACE(lie.name);
    FakeServer liar({0, 4096}, lie.answer), low({0, 2048}, honestly), high({2000, 4096}, honestly);
    const auto servers = connect({&liar, &low, &high});
    for (int i = 0; i < 16; ++i) EXPECT_EQ(fetch(*servers), kTableServersAll);
    EXPECT_GT(liar.asked, 0);
    EXPECT_GT(servers->server(1).counts().retries + servers->server(2).counts().retries, 0u);
  }
}

TEST(TableServers, AServerThatAnswersItsStatusButNotRowsIsDownUntilItGivesRows) {
  std::atomic<bool> fails{true};
  FakeServer server({0, 4096}, [&](const RowRequest& request) {
    return fails ? error_response(503, "no rows today") : honestly(request);
  });
  const auto servers = connect({&server});
  EXPECT_EQ(servers->problem(kModel), "");
  for (int i = 0; i < 3; ++i) EXPECT_THAT(fetch(*servers), HasSubstr("no rows today"));
  for (int i = 0; i < 3; ++i) {  // whatever its status says
    EXPECT_THAT(servers->problem(kModel), HasSubstr("no rows today"));
    servers->refresh();
  }
  fails = false;
  EXPECT_TRUE(becomes_true([&] { return servers->problem(kModel).empty(); }));
  EXPECT_EQ(fetch(*servers), kTableServersAll);
}

TEST(TableServers, RequestsThatAreRefusedDoNotMakeAServerUnavailable) {
  FakeServer server({0, 4096},
                    [](const RowRequest&) { return error_response(400, "too many rows"); });
  const auto servers = connect({&server});
  for (int i = 0; i < 5; ++i) EXPECT_THAT(fetch(*servers), HasSubstr("too many rows"));
  EXPECT_EQ(servers->problem(kModel), "");
}

TEST(TableServers, AServerThatIsGoneIsDownUntilItIsBack) {
  auto low = std::make_unique<FakeServer>(PartRange{0, 2048}, honestly);
  FakeServer high({2048, 4096}, honestly);
  const auto servers = connect({low.get(), &high});
  EXPECT_EQ(fetch(*servers), kTableServersAll);
  low.reset();
  EXPECT_THAT(fetch(*servers), HasSubstr("cannot be read"));
  EXPECT_TRUE(becomes_true([&] { return !servers->server(0).state().is_up; }));
  EXPECT_THAT(servers->problem(kModel), HasSubstr("parts 0-2047"));
}

TEST(TableServers, AServerThatIsLateWithItsStatusIsUsed) {
  FakeServer busy({0, 4096}, honestly);
  const auto servers = connect({&busy});
  busy.is_silent = true;
  EXPECT_TRUE(becomes_true([&, begin = busy.status_asked.load()] {
    return busy.status_asked >= begin + 3;  // at least one of them was waited for in vain
  }));
  EXPECT_EQ(fetch(*servers), kTableServersAll);
}

TEST(TableServers, AddressesAreParsed) {
  EXPECT_THAT(parse_table_servers("a:1, b;[::1]:7"),
              ElementsAre(TableServerAddress{"a", 1}, TableServerAddress{"b", 8000},
                          TableServerAddress{"::1", 7}));
  EXPECT_EQ((TableServerAddress{"::1", 7}).text(), "[::1]:7");
  for (const char* wrong :
       {"", ",", ":1", "a:0", "a:65536", "a:x", "a:1,a:1", "http://a:1", "a:1/v2"})
    EXPECT_THROW(parse_table_servers(wrong), Error) << wrong;
}

}  // namespace
}  // namespace emblem
