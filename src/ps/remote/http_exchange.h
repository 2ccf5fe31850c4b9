// ps/remote/http_exchange.h - a request to an HTTP/1.1 server and its answer, on a thread that has
// several of them under way.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/system/tcp_connect.h"
#include "store/server_connection.h"

namespace emblem {

// A POST with this body; an empty token is not sent.
std::string http_post(std::string_view host, std::string_view path, std::string_view token,
                      std::string_view body);

// Used by one thread at a time.
class HttpExchange {
 public:
  // An answer whose body has more than `most_bytes` is a failure.
  HttpExchange(ServerConnection connection, std::shared_ptr<const std::string> request,
               size_t most_bytes)
      : connection_(std::move(connection)), request_(std::move(request)), most_bytes_(most_bytes) {}

  bool is_over() const { return state_ == State::kDone || state_ == State::kFailed; }
  bool has_answer() const { return state_ == State::kDone; }
  // Why there is no answer.
  const std::string& problem() const { return problem_; }
  bool has_timed_out() const { return has_timed_out_; }
  // The server has sent nothing: it may have closed a connection that was idle.
  bool is_silent() const { return received_.empty(); }

  // The answer; a header that it does not have is empty.
  int status() const { return status_; }
  std::string_view header(std::string_view name) const;
  std::string_view body() const { return std::string_view(received_).substr(body_begin_); }

  // The connection, for the next request. Only after an answer; closed where the server closes it.
  ServerConnection take_connection();
  // The request again over another connection; only before an answer.
  void restart(ServerConnection connection);

 private:
  friend void run_exchanges(std::span<HttpExchange* const> exchanges, Deadline deadline);
  enum class State { kSending, kReceiving, kDone, kFailed };

  void advance();
  void send();
  void receive();
  void read_head();
  void read_chunks();
  void fail(std::string problem);

  ServerConnection connection_;
  std::shared_ptr<const std::string> request_;
  size_t most_bytes_;
  State state_ = State::kSending;
  size_t sent_ = 0;
  std::string received_;
  size_t body_begin_ = 0;   // in received_; 0: the head is not complete
  size_t body_bytes_ = 0;   // chunked bodies: what has been read so far
  size_t chunk_begin_ = 0;  // in received_, where the next chunk begins; 0: the body is not chunked
  int status_ = 0;
  bool closes_ = false, has_timed_out_ = false;
  std::string problem_;
};

// Returns when all are over. Those without an answer at the deadline have failed.
void run_exchanges(std::span<HttpExchange* const> exchanges, Deadline deadline);

}  // namespace emblem
