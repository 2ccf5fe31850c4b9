#include "data/source/objects/content_md5.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace emblem {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kMB = 1000000;
constexpr int64_t kMostSizes = 16;
constexpr int64_t kRound[] = {5,   8,   10,  15,  16,  20,  25,  30,  32,  40,  50,   60,
                              64,  75,  80,  96,  100, 120, 125, 128, 150, 160, 192,  200,
                              250, 256, 300, 320, 384, 400, 500, 512, 640, 750, 1000, 1024};

// Sizes of parts of which an object has `parts`.
std::set<int64_t> sizes_for(int64_t bytes, int64_t parts) {
  if (parts == 1) return {std::max<int64_t>(1, bytes)};
  const int64_t least = (bytes + parts - 1) / parts, most = (bytes - 1) / (parts - 1);
  std::set<int64_t> sizes;
  for (const int64_t number : kRound)
    for (const int64_t size : {number * kMiB, number * kMB})
      if (size >= least && size <= most) sizes.insert(size);
  const int64_t first = (least + kMiB - 1) / kMiB, last = most / kMiB;
  if (last - first < kMostSizes)
    for (int64_t number = first; number <= last; ++number) sizes.insert(number * kMiB);
  return sizes;
}

}  // namespace

bool is_md5_of_parts(std::string_view md5) { return md5.find('-') != md5.npos; }

ContentMd5::ContentMd5(std::string stated, int64_t bytes, int64_t likely_part_bytes)
    : stated_(std::move(stated)) {
  if (!is_md5_of_parts(stated_)) return;
  const size_t digits = stated_.find('-') + 1;
  int64_t parts = 0;
  std::from_chars(stated_.data() + digits, stated_.data() + stated_.size(), parts);
  if (parts < 1 || bytes < parts) return;
  std::set<int64_t> sizes = sizes_for(bytes, parts);
  tried_likely_alone_ = sizes.size() > 1 && sizes.contains(likely_part_bytes);
  if (tried_likely_alone_) sizes = {likely_part_bytes};
  for (const int64_t size : sizes) tried_.push_back({size, size, {}, {}});
}

void ContentMd5::end_part(Parts& parts) {
  const auto digest = parts.part.digest();
  parts.all.add(digest.data(), digest.size());
  parts.part = {};
  parts.left = parts.part_bytes;
}

void ContentMd5::add(const char* data, size_t bytes) {
  if (stated_.empty()) return;
  if (!is_md5_of_parts(stated_)) whole_.add(data, bytes);
  for (Parts& parts : tried_) {
    const char* from = data;
    for (auto left = static_cast<int64_t>(bytes); left > 0;) {
      const int64_t count = std::min(left, parts.left);
      parts.part.add(from, static_cast<size_t>(count));
      from += count;
      left -= count;
      parts.left -= count;
      if (parts.left == 0) end_part(parts);
    }
  }
}

std::string ContentMd5::found() {
  if (stated_.empty()) return "";
  if (!is_md5_of_parts(stated_)) return whole_.hex();
  for (Parts& parts : tried_) {
    if (parts.left < parts.part_bytes) end_part(parts);
    if (!stated_.starts_with(parts.all.hex() + "-")) continue;
    part_bytes_ = parts.part_bytes;
    return stated_;
  }
  return "";
}

}  // namespace emblem
