// data/source/objects/content_md5.h - the MD5 that a store has for an object, from its content.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/objects/md5.h"

namespace emblem {

// Whether an MD5 of md5_of_etag() is that of an object which was uploaded in parts.
bool is_md5_of_parts(std::string_view md5);

// For an object that was uploaded in N parts, S3 has the MD5 of the MD5s of the parts, and N, but
// not their size. Those sizes are tried that give N parts and that programs use: whole MiB, or
// round numbers of them where these are many. Each costs one more pass over the content.
class ContentMd5 {
 public:
  // `stated`: what the store says of the object, which has `bytes` bytes; "": nothing.
  // `likely_part_bytes`: a size that is tried alone where it gives N parts; 0: none.
  ContentMd5(std::string stated, int64_t bytes, int64_t likely_part_bytes = 0);

  void add(const char* data, size_t bytes);
  // What was stated where the content has it. Otherwise the MD5 of the whole; "" of an object that
  // was uploaded in parts. Nothing can be added after it.
  std::string found();
  // The size of parts that found() has found; 0: none.
  int64_t part_bytes() const { return part_bytes_; }
  bool tried_likely_alone() const { return tried_likely_alone_; }

 private:
  struct Parts {
    int64_t part_bytes;
    int64_t left;  // of the part that is being added
    Md5 part, all;
  };
  static void end_part(Parts& parts);

  const std::string stated_;
  Md5 whole_;
  std::vector<Parts> tried_;
  int64_t part_bytes_ = 0;
  bool tried_likely_alone_ = false;
};

}  // namespace emblem
