// Fuzzes the bytes of an HTTP/1 connection, as a client sends them: heads, lengths, chunks, and
// what follows them. The requests found must not depend on how the bytes are split, and none may be
// found after a refusal. With EMBLEM_FUZZ_SEEDS=FOLDER set, writes the cases of RFC 9112 there.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "serve/http/message/request_reader.h"
#include "serve/http/message/rfc9112_cases_test.h"

namespace emblem {
namespace {

constexpr size_t kMaxHeader = 512, kMaxBody = 2048;

void require(bool promise) {
  if (!promise) std::abort();
}

struct Found {
  std::string method, target, body;
  bool operator==(const Found&) const = default;
};
struct Conversation {
  std::vector<Found> requests;
  int refusal = 0;
  bool operator==(const Conversation&) const = default;
};

void check(const HttpRequestHead& head) {
  require(is_http_token(head.method) && head.target.starts_with('/'));
  require(!head.is_chunked || (!head.content_length && !head.is_http_1_0));
  for (const HttpField& field : head.fields)
    require(is_http_token(field.name) && is_http_text(field.value));
}

// Reads `bytes` in pieces of at most `piece`.
Conversation converse(std::span<const std::byte> bytes, size_t piece) {
  MemoryBudget budget(size_t{1} << 20);
  HttpRequestReader reader(
      {.max_header_bytes = kMaxHeader, .max_body_bytes = kMaxBody, .budget = &budget});
  Conversation found;
  // False at the end of the bytes.
  const auto receive = [&] {
    const std::span<std::byte> room = reader.prepare();
    require(!room.empty());
    const size_t some = std::min({room.size(), bytes.size(), piece});
    if (some == 0) return false;
    std::memcpy(room.data(), bytes.data(), some);
    bytes = bytes.subspan(some);
    reader.commit(some);
    return true;
  };
  using State = HttpRequestReader::State;
  for (;;) {
    reader.next();
    State state = reader.has_input() ? reader.read_head() : State::kNeedMore;
    while (state == State::kNeedMore && receive()) state = reader.read_head();
    if (state == State::kHead) {
      check(reader.head());
      state = reader.begin_body(bytes.size() % 100);
      if (state == State::kNeedMore && reader.has_input()) state = reader.read_body();
      while (state == State::kNeedMore && receive()) state = reader.read_body();
    }
    if (state == State::kRefused) {
      found.refusal = reader.refusal().status;
      require(found.refusal == 400 || found.refusal == 413 || found.refusal == 431);
    }
    if (state != State::kComplete) break;
    const HttpBody body = reader.take_body();
    require(body.bytes.size() <= kMaxBody && budget.used() >= body.bytes.size());
    found.requests.push_back({std::string(reader.head().method), std::string(reader.head().target),
                              std::string(text_of(body.bytes))});
  }
  return found;
}

void write_seeds(const std::string& folder) {
  for (const Rfc9112Case& one : rfc9112_cases())
    std::ofstream(folder + "/" + one.name, std::ios::binary) << one.bytes;
}

}  // namespace
}  // namespace emblem

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* folder = std::getenv("EMBLEM_FUZZ_SEEDS")) emblem::write_seeds(folder);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const emblem::Conversation whole = emblem::converse(bytes, size + 1);
  emblem::require(whole == emblem::converse(bytes, 1));
  emblem::require(whole == emblem::converse(bytes, 7));
  return 0;
}
