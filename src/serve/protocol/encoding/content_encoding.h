// serve/protocol/encoding/content_encoding.h - how bodies and messages may be compressed, whatever protocol
// they come by.
#pragma once

namespace emblem {

enum class ContentEncoding { kIdentity, kGzip, kDeflate };

inline const char* name_of(ContentEncoding encoding) {
  switch (encoding) {
    case ContentEncoding::kGzip:
      return "gzip";
    case ContentEncoding::kDeflate:
      return "deflate";
    case ContentEncoding::kIdentity:
      break;
  }
  return "identity";
}

// zlib's window bits, to which 16 are added for gzip's format; "deflate" is zlib's own.
inline int zlib_window(ContentEncoding encoding) {
  return encoding == ContentEncoding::kGzip ? 15 + 16 : 15;
}

}  // namespace emblem
