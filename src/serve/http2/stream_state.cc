#include "serve/http2/stream_state.h"

#include <algorithm>
#include <cstring>

#include "core/caught_error.h"
#include "emblem/error.h"

namespace emblem {
namespace {

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

}  // namespace

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

}  // namespace emblem
