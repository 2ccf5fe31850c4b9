#include "serve/http2/session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/system/caught_error.h"
#include "emblem/error.h"
#include "serve/net/options.h"

namespace emblem {
namespace {

// A stream of the session, with its answer while that is sent.
class Http2StreamState final : public Http2Stream {
 public:
  // All must outlive the stream.
  Http2StreamState(nghttp2_session* session, const Http2Limits& limits,
                   const std::function<void()>& on_output, int32_t id)
      : session_(session),
        limits_(limits),
        on_output_(on_output),
        id_(id),
        begun_(limits.clock()) {}

  void respond(const Http2Fields& fields) override;
  void respond_only(const Http2Fields& fields) override;
  void write(std::string bytes, MemoryBudget::Lease lease) override;
  void finish(const Http2Fields& trailers) override;
  void reset(Http2Error error) override;
  void consume(size_t bytes) override;
  size_t unsent() const override { return unsent_; }

  // Whether its header, or the client in reading its answer, is too slow.
  bool is_too_slow(std::chrono::steady_clock::time_point now) const;

  Http2Headers headers;
  bool is_header_too_large = false;
  bool is_open = false;                   // its header is complete
  bool has_ended = false;                 // the client has sent all
  std::shared_ptr<Http2Handler> handler;  // null before is_open, and where the session answers

 private:
  struct Chunk {
    std::string bytes;
    MemoryBudget::Lease lease;
  };

  void resume();
  static ssize_t read(nghttp2_session*, int32_t, uint8_t* to, size_t room, uint32_t* flags,
                      nghttp2_data_source* source, void*) noexcept;
  ssize_t read_chunks(uint8_t* to, size_t room, uint32_t& flags);

  nghttp2_session* const session_;
  const Http2Limits& limits_;
  const std::function<void()>& on_output_;
  const int32_t id_;
  const std::chrono::steady_clock::time_point begun_;
  std::deque<Chunk> chunks_;
  size_t first_at_ = 0;  // what has been sent of the first chunk
  size_t unsent_ = 0, sent_ = 0;
  std::chrono::steady_clock::time_point sending_since_;
  bool is_deferred_ = false, is_finished_ = false;
  std::vector<std::pair<std::string, std::string>> trailers_;
};

std::vector<nghttp2_nv> to_nv(const Http2Fields& fields) {
  std::vector<nghttp2_nv> all;
  all.reserve(fields.size());
  for (const auto& [name, value] : fields) {
    all.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                   reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(),
                   value.size(), NGHTTP2_NV_FLAG_NONE});
  }
  return all;
}

// Throws what a code of nghttp2 means: a caller's mistake, or a lack of memory.
void require_ok(int code, const char* doing) {
  if (code == NGHTTP2_ERR_NOMEM) throw std::bad_alloc();
  if (code < 0)
    throw Error(ErrorCode::kInternal, cat("HTTP/2: ", doing, ": ", nghttp2_strerror(code)));
}

void Http2StreamState::respond(const Http2Fields& fields) {
  const auto all = to_nv(fields);
  nghttp2_data_provider source{};
  source.source.ptr = this;
  source.read_callback = &Http2StreamState::read;
  require_ok(nghttp2_submit_response(session_, id_, all.data(), all.size(), &source), "a response");
  on_output_();
}

void Http2StreamState::respond_only(const Http2Fields& fields) {
  const auto all = to_nv(fields);
  require_ok(nghttp2_submit_response(session_, id_, all.data(), all.size(), nullptr), "a response");
  on_output_();
}

void Http2StreamState::write(std::string bytes, MemoryBudget::Lease lease) {
  if (bytes.empty()) return;
  if (unsent_ == 0) {
    sending_since_ = limits_.clock();
    sent_ = 0;
  }
  unsent_ += bytes.size();
  chunks_.push_back({std::move(bytes), std::move(lease)});
  resume();
}

void Http2StreamState::finish(const Http2Fields& trailers) {
  for (const auto& [name, value] : trailers) trailers_.emplace_back(name, value);
  is_finished_ = true;
  resume();
}

void Http2StreamState::reset(Http2Error error) {
  require_ok(
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id_, static_cast<uint32_t>(error)),
      "a reset");
  on_output_();
}

void Http2StreamState::consume(size_t bytes) {
  nghttp2_session_consume_stream(session_, id_, bytes);
  on_output_();
}

bool Http2StreamState::is_too_slow(std::chrono::steady_clock::time_point now) const {
  if (unsent_ > 0) return now > sending_since_ + transfer_time(limits_.timeout, sent_);
  return !is_open && now > begun_ + limits_.timeout;
}

void Http2StreamState::resume() {
  if (is_deferred_) {
    is_deferred_ = false;
    nghttp2_session_resume_data(session_, id_);
  }
  on_output_();
}

ssize_t Http2StreamState::read(nghttp2_session*, int32_t, uint8_t* to, size_t room, uint32_t* flags,
                               nghttp2_data_source* source, void*) noexcept {
  try {
    return static_cast<Http2StreamState*>(source->ptr)->read_chunks(to, room, *flags);
  } catch (...) {
    log_caught("an HTTP/2 connection is closed");
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
}

ssize_t Http2StreamState::read_chunks(uint8_t* to, size_t room, uint32_t& flags) {
  size_t done = 0;
  while (done < room && !chunks_.empty()) {
    const std::string& bytes = chunks_.front().bytes;
    const size_t some = std::min(room - done, bytes.size() - first_at_);
    std::memcpy(to + done, bytes.data() + first_at_, some);
    done += some;
    first_at_ += some;
    if (first_at_ < bytes.size()) break;
    chunks_.pop_front();
    first_at_ = 0;
  }
  unsent_ -= done;
  sent_ += done;
  if (unsent_ == 0 && done > 0 && !is_finished_) handler->on_sent();  // which may write more
  if (unsent_ > 0) return static_cast<ssize_t>(done);
  if (is_finished_) {
    flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    const Http2Fields fields(trailers_.begin(), trailers_.end());
    const auto all = to_nv(fields);
    require_ok(nghttp2_submit_trailer(session_, id_, all.data(), all.size()), "trailers");
  } else if (done == 0) {
    is_deferred_ = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return static_cast<ssize_t>(done);
}

// The types of the frames that a client sends. libnghttp2 says nothing of frames of types that it
// does not know, however many there are.
class FrameScanner {
 public:
  // Bytes as they arrive, from the preface on: calls take(type) for each frame whose head is
  // complete.
  template <class Take>
  void feed(std::span<const std::byte> bytes, Take&& take) {
    while (!bytes.empty()) {
      if (skipped_ > 0) {
        const size_t passed = std::min(skipped_, bytes.size());
        skipped_ -= passed;
        bytes = bytes.subspan(passed);
        continue;
      }
      head_[have_++] = std::to_integer<uint8_t>(bytes.front());
      bytes = bytes.subspan(1);
      if (have_ < kHeadBytes) continue;
      have_ = 0;
      skipped_ = size_t{head_[0]} << 16 | size_t{head_[1]} << 8 | head_[2];
      take(head_[3]);
    }
  }

 private:
  static constexpr size_t kHeadBytes = 9, kPrefaceBytes = 24;

  std::array<uint8_t, kHeadBytes> head_{};
  size_t have_ = 0;                 // bytes of head_
  size_t skipped_ = kPrefaceBytes;  // bytes up to the next head
};

// Tokens that are spent on frames that cost the server work and bring nothing (PING, SETTINGS,
// PRIORITY, WINDOW_UPDATE, DATA that is empty or padding alone, frames of unknown types, malformed
// ones), and earned by time and by frames that carry data.
class FrameBudget {
 public:
  using Time = std::chrono::steady_clock::time_point;

  FrameBudget(double burst, double per_second, Time now)
      : burst_(burst), per_second_(per_second), tokens_(burst), filled_(now) {}

  // False when there are not enough left.
  bool spend(double tokens, Time now) {
    if (tokens_ < tokens) {
      earn(std::chrono::duration<double>(now - filled_).count() * per_second_);
      filled_ = now;
    }
    if (tokens_ < tokens) return false;
    tokens_ -= tokens;
    return true;
  }

  void earn(double tokens) { tokens_ = std::min(burst_, tokens_ + tokens); }

 private:
  double burst_, per_second_, tokens_;
  Time filled_;
};

using Clock = std::chrono::steady_clock;

constexpr size_t kMostContinuations = 8, kMostSettings = 32, kMostAcks = 100;
// What frames cost and bring, in units of one PING.
constexpr double kUsefulFrame = 4;
constexpr double kInvalidFrame = 10;

}  // namespace

std::chrono::milliseconds transfer_time(std::chrono::milliseconds timeout, size_t bytes) {
  return timeout + std::chrono::milliseconds(bytes * 1000 / kSlowestBytesPerSecond);
}

struct Http2Session::State {
  using Stream = Http2StreamState;

  State(const Http2Limits& its_limits, Open its_open, std::function<void()> its_on_output)
      : limits(its_limits),
        open(std::move(its_open)),
        on_output(std::move(its_on_output)),
        frames(limits.frame_burst, limits.frames_per_second, limits.clock()),
        resets(limits.reset_burst, limits.resets_per_second, limits.clock()) {
    make_session();
    submit_settings();
  }
  ~State();

  void make_session();
  void submit_settings();

  Stream* stream(int32_t id) const {
    return static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }

  // Ends the connection because of what the client did.
  void give_up(Http2Error error) {
    if (is_given_up) return;
    is_given_up = true;
    nghttp2_session_terminate_session(session, static_cast<uint32_t>(error));
  }
  void spend(FrameBudget& budget, double tokens) {
    if (!budget.spend(tokens, limits.clock())) give_up(Http2Error::kEnhanceYourCalm);
  }

  // Calls of nghttp2; its frames of C let no exception through.
  template <class Act>
  int guarded(Act&& act) noexcept {
    try {
      act();
      return 0;
    } catch (...) {
      log_caught("an HTTP/2 connection is closed");
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  }
  void on_begin_headers(const nghttp2_frame& frame);
  void on_header(const nghttp2_frame& frame, std::string_view name, std::string_view value);
  void on_begin_frame(const nghttp2_frame_hd& head);
  void on_frame(const nghttp2_frame& frame);
  void on_request(Stream& stream);
  void on_data(int32_t id, std::span<const std::byte> bytes);
  void on_close(int32_t id);
  void on_frame_sent(const nghttp2_frame& frame);

  const Http2Limits limits;
  const Open open;
  const std::function<void()> on_output;
  FrameBudget frames, resets;
  FrameScanner scanner;
  nghttp2_session* session = nullptr;
  std::unordered_map<int32_t, std::unique_ptr<Stream>> streams;
  bool has_begun = false, is_given_up = false;
};

// ---- setting up ----

void Http2Session::State::make_session() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* option = nullptr;
  require_ok(nghttp2_session_callbacks_new(&callbacks), "setting up");
  const std::unique_ptr<nghttp2_session_callbacks, decltype(&nghttp2_session_callbacks_del)>
      callbacks_owner(callbacks, nghttp2_session_callbacks_del);
  require_ok(nghttp2_option_new(&option), "setting up");
  const std::unique_ptr<nghttp2_option, decltype(&nghttp2_option_del)> option_owner(
      option, nghttp2_option_del);

#define EMBLEM_STATE static_cast<State*>(user)
  nghttp2_session_callbacks_set_on_begin_headers_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
        return EMBLEM_STATE->guarded([&] { EMBLEM_STATE->on_begin_headers(*frame); });
      });
  nghttp2_session_callbacks_set_on_header_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                    size_t name_bytes, const uint8_t* value, size_t bytes, uint8_t, void* user) {
        return EMBLEM_STATE->guarded([&] {
          EMBLEM_STATE->on_header(*frame, {reinterpret_cast<const char*>(name), name_bytes},
                                  {reinterpret_cast<const char*>(value), bytes});
        });
      });
  nghttp2_session_callbacks_set_on_begin_frame_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame_hd* head, void* user) {
        return EMBLEM_STATE->guarded([&] { EMBLEM_STATE->on_begin_frame(*head); });
      });
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
        return EMBLEM_STATE->guarded([&] { EMBLEM_STATE->on_frame(*frame); });
      });
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
      callbacks,
      [](nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t bytes, void* user) {
        return EMBLEM_STATE->guarded(
            [&] { EMBLEM_STATE->on_data(id, std::as_bytes(std::span(data, bytes))); });
      });
  nghttp2_session_callbacks_set_on_stream_close_callback(
      callbacks, [](nghttp2_session*, int32_t id, uint32_t, void* user) {
        return EMBLEM_STATE->guarded([&] { EMBLEM_STATE->on_close(id); });
      });
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame*, int, void* user) {
        EMBLEM_STATE->spend(EMBLEM_STATE->frames, kInvalidFrame);
        return 0;
      });
  nghttp2_session_callbacks_set_on_frame_send_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
        return EMBLEM_STATE->guarded([&] { EMBLEM_STATE->on_frame_sent(*frame); });
      });
#undef EMBLEM_STATE

  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_max_outbound_ack(option, kMostAcks);
  nghttp2_option_set_max_settings(option, kMostSettings);
  nghttp2_option_set_max_continuations(option, kMostContinuations);
  nghttp2_option_set_stream_reset_rate_limit(option, limits.reset_burst, limits.resets_per_second);
  require_ok(nghttp2_session_server_new2(&session, callbacks, this, option), "setting up");
}

void Http2Session::State::submit_settings() {
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.max_streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.stream_window},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(limits.max_header_bytes)},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},  // no tree of streams to keep
  };
  require_ok(nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, std::size(settings)),
             "settings");
  require_ok(nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
                                                   static_cast<int32_t>(limits.connection_window)),
             "settings");
}

Http2Session::State::~State() {
  for (const auto& entry : streams) {
    if (const auto& handler = entry.second->handler) guarded([&] { handler->on_closed(); });
  }
  nghttp2_session_del(session);
}

// ---- what arrives ----

void Http2Session::State::on_begin_headers(const nghttp2_frame& frame) {
  if (frame.hd.type != NGHTTP2_HEADERS || frame.headers.cat != NGHTTP2_HCAT_REQUEST) return;
  const int32_t id = frame.hd.stream_id;
  auto& stream = streams[id] = std::make_unique<Stream>(session, limits, on_output, id);
  nghttp2_session_set_stream_user_data(session, id, stream.get());
}

void Http2Session::State::on_header(const nghttp2_frame& frame, std::string_view name,
                                    std::string_view value) {
  Stream* to = stream(frame.hd.stream_id);
  if (to == nullptr || to->is_open) return;  // trailers mean nothing here
  if (to->headers.bytes() + name.size() + value.size() + 32 > limits.max_header_bytes)
    to->is_header_too_large = true;
  else
    to->headers.add(name, value);
}

void Http2Session::State::on_begin_frame(const nghttp2_frame_hd& head) {
  switch (head.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:
      return;  // limited otherwise
    case NGHTTP2_DATA:
      if (head.length == 0 && !(head.flags & NGHTTP2_FLAG_END_STREAM)) spend(frames, 1);
      return;
    case NGHTTP2_RST_STREAM:
      return spend(resets, 1);
    default:
      return spend(frames, 1);
  }
}

void Http2Session::State::on_frame(const nghttp2_frame& frame) {
  const bool is_last = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  const bool is_padding =
      frame.hd.type == NGHTTP2_DATA && frame.hd.length > 0 && frame.hd.length == frame.data.padlen;
  if (is_padding && !is_last) spend(frames, 1);
  Stream* of = stream(frame.hd.stream_id);
  if (frame.hd.type == NGHTTP2_SETTINGS) has_begun = true;
  if (frame.hd.type == NGHTTP2_HEADERS && of != nullptr && !of->is_open) {
    on_request(*of);
    of = stream(frame.hd.stream_id);
  }
  if (of == nullptr || !is_last || of->has_ended) return;
  of->has_ended = true;
  if (of->handler) of->handler->on_end();
}

void Http2Session::State::on_request(Stream& stream) {
  frames.earn(kUsefulFrame);
  stream.is_open = true;
  if (stream.is_header_too_large) return stream.respond_only({{":status", "431"}});
  stream.handler = open(stream, std::move(stream.headers));
}

void Http2Session::State::on_data(int32_t id, std::span<const std::byte> bytes) {
  frames.earn(kUsefulFrame);
  nghttp2_session_consume_connection(session, bytes.size());
  Stream* to = stream(id);
  if (to != nullptr && to->handler) to->handler->on_data(bytes);
}

void Http2Session::State::on_close(int32_t id) {
  const auto found = streams.find(id);
  if (found == streams.end()) return;
  const std::unique_ptr<Stream> stream = std::move(found->second);
  streams.erase(found);
  if (stream->handler) stream->handler->on_closed();
}

void Http2Session::State::on_frame_sent(const nghttp2_frame& frame) {
  if (frame.hd.type == NGHTTP2_DATA) return frames.earn(kUsefulFrame);
  if (frame.hd.type == NGHTTP2_RST_STREAM && frame.rst_stream.error_code != NGHTTP2_NO_ERROR)
    return spend(resets, 1);
  if (frame.hd.type != NGHTTP2_HEADERS || !(frame.hd.flags & NGHTTP2_FLAG_END_STREAM)) return;
  // The answer is complete; what the client still sends of its request is of no use.
  const Stream* of = stream(frame.hd.stream_id);
  if (of != nullptr && !of->has_ended)
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame.hd.stream_id, NGHTTP2_NO_ERROR);
}

// ---- the session ----

Http2Session::Http2Session(const Http2Limits& limits, Open open, std::function<void()> on_output)
    : state_(std::make_unique<State>(limits, std::move(open), std::move(on_output))) {}

Http2Session::~Http2Session() = default;

bool Http2Session::receive(std::span<const std::byte> bytes) {
  state_->scanner.feed(bytes, [this](uint8_t type) {
    if (type > NGHTTP2_CONTINUATION) state_->spend(state_->frames, 1);
  });
  const ssize_t used = nghttp2_session_mem_recv(
      state_->session, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return used == static_cast<ssize_t>(bytes.size()) && !state_->is_given_up && !is_over();
}

void Http2Session::take_output(std::string& out, size_t most) {
  while (out.size() < most) {
    const uint8_t* data = nullptr;
    const ssize_t bytes = nghttp2_session_mem_send(state_->session, &data);
    require_ok(static_cast<int>(bytes), "sending");
    if (bytes == 0) return;
    out.append(reinterpret_cast<const char*>(data), static_cast<size_t>(bytes));
  }
}

void Http2Session::go_away(Http2Error error) {
  nghttp2_submit_goaway(state_->session, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(state_->session),
                        static_cast<uint32_t>(error), nullptr, 0);
  state_->on_output();
}

void Http2Session::drain() {
  go_away();
  std::vector<std::shared_ptr<Http2Handler>> all;  // a copy: streams may end
  for (const auto& [id, stream] : state_->streams) {
    if (stream->handler) all.push_back(stream->handler);
  }
  for (const auto& handler : all) handler->on_drain();
}

void Http2Session::ping() {
  nghttp2_submit_ping(state_->session, NGHTTP2_FLAG_NONE, nullptr);
  state_->on_output();
}

bool Http2Session::tick(Clock::time_point now) {
  std::vector<int32_t> all;
  for (const auto& [id, stream] : state_->streams) all.push_back(id);
  for (const int32_t id : all) {
    State::Stream* stream = state_->stream(id);
    if (stream == nullptr) continue;
    if (stream->is_too_slow(now)) {
      if (!stream->is_open) return false;
      stream->reset(Http2Error::kCancel);
    } else if (stream->handler) {
      stream->handler->on_tick(now);
    }
  }
  return true;
}

bool Http2Session::has_begun() const { return state_->has_begun; }
bool Http2Session::is_over() const {
  return !nghttp2_session_want_read(state_->session) &&
         !nghttp2_session_want_write(state_->session);
}
size_t Http2Session::streams() const { return state_->streams.size(); }

bool Http2Session::is_busy() const {
  for (const auto& [id, stream] : state_->streams) {
    if (stream->handler && stream->handler->is_busy()) return true;
  }
  return false;
}

}  // namespace emblem
