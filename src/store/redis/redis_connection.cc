#include "store/redis/redis_connection.h"

#ifdef EMBLEM_WITH_REDIS

#include <poll.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "core/system/tcp_connect.h"

namespace emblem {
namespace {

constexpr size_t kFirstRoom = 16 << 10;
constexpr int64_t kLongest = int64_t{512} << 20;  // a string, by Redis's own limit
constexpr int64_t kMostItems = int64_t{1} << 24;
constexpr int kDeepest = 8;

void append_number(std::string& out, char kind, size_t number) {
  char text[24];
  text[0] = kind;
  const auto end = std::to_chars(text + 1, text + sizeof(text), number).ptr;
  out.append(text, static_cast<size_t>(end - text)).append("\r\n");
}

}  // namespace

RedisSocket::RedisSocket(const RedisEndpoint& endpoint, const ClientTlsContext* tls,
                         const std::string& server_name, HostResolver& resolver, Deadline deadline)
    : endpoint_(endpoint) {
  try {
    connection_ = {connect_to(endpoint.host, endpoint.port, resolver, deadline), tls,
                   server_name.empty() ? endpoint.host : server_name};
  } catch (const Error& error) {
    fail("connecting", error.what());
  }
  finish("the TLS handshake", deadline, [&] { return connection_.shake_hands(); });
}

void RedisSocket::fail(const char* doing, const std::string& reason) const {
  const bool is_refused = reason.starts_with("the certificate is refused");
  throw Error(ErrorCode::kUnavailable,
              cat("redis at ", endpoint_.text(), ", ", doing, ": ", reason,
                  is_refused ? "; see tls_server_name_identification" : ""));
}

template <class Operation>
size_t RedisSocket::finish(const char* doing, Deadline deadline, Operation&& operation) {
  using End = ServerConnection::Result::End;
  for (;;) {
    const ServerConnection::Result result = operation();
    if (result.end == End::kBytes) return result.bytes;
    if (result.end == End::kClosed) fail(doing, "it closed the connection");
    if (result.end == End::kFailed) fail(doing, result.problem);
    pollfd waiting{connection_.descriptor(), connection_.waits_for(), 0};
    const int ready = poll(&waiting, 1, poll_timeout(deadline));
    if (ready == 0) fail(doing, "timed out");
    if (ready < 0 && errno != EINTR) fail(doing, std::strerror(errno));
  }
}

void RedisSocket::write(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty())
    bytes.remove_prefix(finish("writing", deadline, [&] { return connection_.send(bytes); }));
  finish("writing", deadline, [&] { return connection_.flush(); });
}

size_t RedisSocket::read(char* to, size_t room, Deadline deadline) {
  return finish("reading", deadline, [&] { return connection_.receive(to, room); });
}

void append_command_size(std::string& out, size_t words) { append_number(out, '*', words); }

void append_word(std::string& out, std::string_view word) {
  append_number(out, '$', word.size());
  out.append(word).append("\r\n");
}

std::string redis_command(std::initializer_list<std::string_view> words) {
  std::string out;
  append_command_size(out, words.size());
  for (const std::string_view word : words) append_word(out, word);
  return out;
}

RedisConnection::RedisConnection(const RedisEndpoint& endpoint, const RedisSettings& settings,
                                 const ClientTlsContext* tls, HostResolver& resolver,
                                 Deadline deadline)
    : endpoint_(endpoint), socket_(endpoint, tls, settings.tls.server_name, resolver, deadline) {
  if (settings.password.empty()) return;
  // Servers before 6 know no users: for the default one they are asked the old way.
  send(settings.user.empty() || settings.user == "default"
           ? redis_command({"AUTH", settings.password})
           : redis_command({"AUTH", settings.user, settings.password}),
       deadline);
  const RedisReply answer = reply(deadline);
  if (answer.kind == RedisItem::Kind::kError) {
    fail(ErrorCode::kUnavailable,
         cat("the login of user ", settings.user, " failed: ", answer.text));
  }
}

void RedisConnection::fail(ErrorCode code, std::string_view reason) const {
  throw Error(code, cat("redis at ", endpoint_.text(), ": ", reason));
}

void RedisConnection::receive(Deadline deadline) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (end_ == buffer_.size()) {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    } else {
      buffer_.resize(std::max(kFirstRoom, buffer_.size() * 2));
    }
  }
  end_ += socket_.read(buffer_.data() + end_, buffer_.size() - end_, deadline);
}

std::string_view RedisConnection::line(Deadline deadline) {
  for (size_t seen = 0;;) {
    const std::string_view ready(buffer_.data() + begin_, end_ - begin_);
    const size_t end = ready.find("\r\n", seen);
    if (end != std::string_view::npos) {
      begin_ += end + 2;
      return ready.substr(0, end);
    }
    seen = ready.empty() ? 0 : ready.size() - 1;
    if (ready.size() > 64 << 10) fail(ErrorCode::kCorruption, "a reply without an end of line");
    receive(deadline);
  }
}

RedisItem RedisConnection::next(Deadline deadline) {
  const std::string_view head = line(deadline);
  const char kind = head.empty() ? '\0' : head.front();
  const std::string_view rest = head.substr(head.empty() ? 0 : 1);
  if (kind == '+') return {RedisItem::Kind::kText, 0, rest};
  if (kind == '-') return {RedisItem::Kind::kError, 0, rest};
  int64_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if ((kind != ':' && kind != '$' && kind != '*') || error != std::errc() ||
      end != rest.data() + rest.size()) {
    fail(ErrorCode::kCorruption, "a reply that is not of its protocol");
  }
  if (kind == ':') return {RedisItem::Kind::kInteger, number, {}};
  if (number == -1) return {};
  if (number < 0 || number > (kind == '*' ? kMostItems : kLongest)) {
    fail(ErrorCode::kCorruption, cat("a reply with a size of ", number));
  }
  if (kind == '*') return {RedisItem::Kind::kArray, number, {}};
  const auto size = static_cast<size_t>(number);
  while (end_ - begin_ < size + 2) receive(deadline);
  const std::string_view text(buffer_.data() + begin_, size);
  begin_ += size + 2;
  return {RedisItem::Kind::kText, 0, text};
}

RedisReply RedisConnection::reply(Deadline deadline) { return reply(deadline, 0); }

RedisReply RedisConnection::reply(Deadline deadline, int depth) {
  if (depth > kDeepest) fail(ErrorCode::kCorruption, "a reply of arrays within arrays");
  const RedisItem item = next(deadline);
  RedisReply whole{item.kind, item.number, std::string(item.text), {}};
  if (item.kind != RedisItem::Kind::kArray) return whole;
  for (int64_t i = 0; i < item.number; ++i) whole.items.push_back(reply(deadline, depth + 1));
  return whole;
}

}  // namespace emblem

#endif
