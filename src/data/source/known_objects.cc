#include "data/source/known_objects.h"

namespace emblem {
namespace {

constexpr int64_t kKeptListings = 8;  // a training and its evaluations list their data once each

}  // namespace

void KnownObjects::add(const std::vector<ObjectInfo>& found) {
  ++listings_;
  for (const ObjectInfo& info : found) known_[info.uri] = {info, listings_};
  if (known_.size() <= most_) return;
  std::erase_if(
      known_, [&](const auto& known) { return known.second.listing + kKeptListings <= listings_; });
}

void KnownObjects::add_one(const ObjectInfo& info) {
  if (known_.size() < most_) known_[info.uri] = {info, listings_};
}

std::optional<ObjectInfo> KnownObjects::find(const std::string& uri) const {
  const auto known = known_.find(uri);
  return known == known_.end() ? std::nullopt : std::optional(known->second.info);
}

}  // namespace emblem
