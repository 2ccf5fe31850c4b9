#include "serve/protocol/status.h"

namespace emblem {

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kUnavailable:
    case ErrorCode::kOutOfMemory:
      return 503;
    case ErrorCode::kUnsupported:
      return 501;
    case ErrorCode::kCancelled:
      return 499;
    case ErrorCode::kUnauthenticated:
      return 401;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kTooLarge:
      return 413;
    case ErrorCode::kCorruption:
    case ErrorCode::kInternal:
      break;
  }
  return 500;
}

int grpc_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCancelled:
      return 1;  // CANCELLED
    case ErrorCode::kInvalidArgument:
      return 3;  // INVALID_ARGUMENT
    case ErrorCode::kNotFound:
      return 5;  // NOT_FOUND
    case ErrorCode::kPermissionDenied:
      return 7;  // PERMISSION_DENIED
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kTooLarge:
      return 8;  // RESOURCE_EXHAUSTED
    case ErrorCode::kUnsupported:
      return 12;  // UNIMPLEMENTED
    case ErrorCode::kUnavailable:
      return 14;  // UNAVAILABLE
    case ErrorCode::kCorruption:
      return 15;  // DATA_LOSS
    case ErrorCode::kUnauthenticated:
      return 16;  // UNAUTHENTICATED
    case ErrorCode::kInternal:
      break;
  }
  return 13;  // INTERNAL
}

std::string_view shortened(std::string_view message) {
  constexpr size_t kMostBytes = 2000;
  if (message.size() <= kMostBytes) return message;
  size_t end = kMostBytes;
  const auto continues = [&](size_t at) {
    return (static_cast<unsigned char>(message[at]) & 0xC0) == 0x80;
  };
  while (end > kMostBytes - 4 && continues(end)) --end;
  return message.substr(0, end);
}

}  // namespace emblem
