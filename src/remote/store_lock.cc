#include "remote/store_lock.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/system/log.h"
#include "core/text/shallow_json.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFolder = ".lock";

// Steps of the system's clock do not show, times of sleep do.
double seconds_now() {
  const auto boot = [] {
    timespec time{};
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  static const double base =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() -
      boot();
  return base + boot();
}

std::string name_of_claim(const std::string& id) { return cat(kFolder, "/", id, ".json"); }

// A value of a claim; `otherwise` where it has no such value, or one of another type.
template <class T>
T value_or(const Json& claim, const char* name, T otherwise) {
  const auto found = claim.find(name);
  if (found == claim.end()) return otherwise;
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    return otherwise;
  }
}

std::string seconds_text(double seconds) { return format_duration(std::max(0.0, seconds)); }

}  // namespace

StoreLockOptions store_lock_options() {
  StoreLockOptions options;
#if defined(EMBLEM_TEST_HOOKS)
  if (const char* seconds = std::getenv("EMBLEM_TEST_LOCK_SECONDS")) {
    options.expiry_seconds = std::atof(seconds);
    options.heartbeat_seconds = options.expiry_seconds / 4;
  }
#endif
  return options;
}

LockClaim::LockClaim(RemoteStorage& storage, std::string folder, StoreLockOptions options)
    : storage_(storage), folder_(std::move(folder)), options_(std::move(options)) {
  if (!options_.now) options_.now = seconds_now;
  if (!options_.wait)
    options_.wait = [](double seconds) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    };
}

std::string LockClaim::address_of(const std::string& id) const {
  return join_uri(folder_, name_of_claim(id));
}

// Returns the time before the request.
double LockClaim::write() {
  ++counter_;
  const double now = options_.now();
  const LockOwner& owner = options_.owner;
  const Json json{{"host", owner.host},       {"machine", owner.machine},
                  {"process", owner.process}, {"started", owner.started},
                  {"began", began_},          {"counter", counter_},
                  {"renewed", now},           {"expires", now + options_.expiry_seconds}};
  storage_.write_text(address_of(owner.id),
                      json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  return now;
}

// Claims by id. One that cannot be parsed counts: its writer may be another version of the
// program.
std::map<std::string, LockClaim::Claim> LockClaim::others(Moment moment) {
  std::map<std::string, Claim> claims;
  bool has_own = moment == Moment::kBeforeWriting;
  for (const ObjectInfo& object :
       storage_.list(join_uri(folder_, kFolder), ListDepth::kDirect).objects) {
    std::string id = object.uri.substr(object.uri.rfind('/') + 1);
    if (!id.ends_with(".json")) continue;
    id.resize(id.size() - 5);
    if (id == options_.owner.id) has_own = true;
    if (id == options_.owner.id) continue;
    std::string text;
    try {
      text = storage_.read_text(object.uri);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kNotFound) continue;  // withdrawn
      throw;
    }
    Claim claim;
    claim.owner.id = id;
    claim.owner.host = "another machine";
    claim.version = text;
    const Json json = Json::parse(text, shallow_json, /*allow_exceptions=*/false);
    if (json.is_object()) {
      claim.owner.host = value_or(json, "host", claim.owner.host);
      claim.owner.machine = value_or(json, "machine", std::string());
      claim.owner.process = value_or(json, "process", int64_t{0});
      claim.owner.started = value_or(json, "started", int64_t{0});
      claim.began = value_or(json, "began", 0.0);
    }
    const auto known = expired_.find(id);
    if (known != expired_.end() && known->second == claim.version) continue;
    claims.emplace(id, std::move(claim));
  }
  if (!has_own)
    throw Error(ErrorCode::kUnavailable,
                cat("the listing of ", shown_uri(folder_), " does not have what was written"));
  return claims;
}

void LockClaim::refuse(const Claim& holder) const {
  throw Error(
      ErrorCode::kUnavailable,
      cat(shown_uri(folder_), " is in use by another ", options_.user, " (process ",
          holder.owner.process, " on ", printable(holder.owner.host), "); ", options_.remedy));
}

// Returns when all claims that are there have expired.
void LockClaim::wait_for_holders() {
  std::map<std::string, Claim> seen = others(Moment::kBeforeWriting);
  const double since = options_.now();
  bool told = false;
  while (!seen.empty()) {
    for (const auto& [id, claim] : seen) {
      const bool was_watched = options_.now() - since >= options_.expiry_seconds;
      if (has_ended(claim.owner) || was_watched)
        expired_[id] = claim.version;
      else if (claim.owner.machine == options_.owner.machine)
        refuse(claim);  // it is alive
    }
    const std::map<std::string, Claim> now = others(Moment::kBeforeWriting);
    if (now.empty()) return;
    for (const auto& [id, claim] : now) {
      const auto before = seen.find(id);
      if (before == seen.end() || before->second.version != claim.version) refuse(claim);
    }
    if (!told)
      log_info(cat(shown_uri(folder_), " was locked by process ", now.begin()->second.owner.process,
                   " on ", printable(now.begin()->second.owner.host), "; waiting up to ",
                   seconds_text(options_.expiry_seconds), " for it to renew the lock"));
    told = true;
    options_.wait(std::min(0.5, options_.expiry_seconds / 20));
  }
}

bool LockClaim::is_later_than(const Claim& other) const {
  return std::tuple(began_, options_.owner.id) > std::tuple(other.began, other.owner.id);
}

void LockClaim::win_contest() {
  const double since = options_.now();
  while (true) {
    const std::map<std::string, Claim> claims = others(Moment::kAfterWriting);
    if (claims.empty()) return;
    for (const auto& [id, claim] : claims) {
      const bool gives_up =
          is_later_than(claim) || options_.now() - since >= options_.contest_seconds;
      if (gives_up) refuse(claim);
    }
    options_.wait(0.2);
  }
}

// A process that may not remove objects is not kept from writing them.
void LockClaim::remove_expired() {
  for (const auto& [id, version] : expired_) try {
      storage_.remove(address_of(id));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kPermissionDenied) throw;
      log_warn(cat("an expired lock stays in the store: ", error.what()));
    }
}

void LockClaim::acquire() {
  wait_for_holders();
  began_ = options_.now();
  try {
    const double written = write();
    win_contest();
    remove_expired();
    win_contest();  // one that was removed may have come back
    renewed_ = written;
  } catch (const Error&) {
    try_to_release();
    throw;
  }
}

bool LockClaim::is_fresh() const {
  return !lost_ && options_.now() - renewed_ < options_.expiry_seconds * 3 / 4;
}

bool LockClaim::has_expired() const { return options_.now() - renewed_ >= options_.expiry_seconds; }

bool LockClaim::renew() {
  if (lost_) return false;
  const bool had_expired = has_expired();
  if (had_expired)  // others may have taken over
    lost_ =
        !others(Moment::kBeforeWriting).empty() || !storage_.find(address_of(options_.owner.id));
  if (!lost_) {
    const double written = write();
    // A write that took long may have brought the claim back after another process removed it.
    if (had_expired || has_expired()) lost_ = !others(Moment::kAfterWriting).empty();
    if (!lost_) renewed_ = written;
  }
  if (lost_) try_to_release();
  return !lost_;
}

std::string LockClaim::loss() const {
  return cat("another ", options_.user, " took over ", shown_uri(folder_),
             " while this one could not reach it; nothing more is written");
}

void LockClaim::release() { storage_.remove(address_of(options_.owner.id)); }

void LockClaim::try_to_release() {
  try {
    release();
  } catch (const Error& error) {  // it expires
    log_warn(cat("the lock stays in the store until it expires: ", error.what()));
  }
}

StoreLock::StoreLock(RemoteStorage& storage, const std::string& folder, StoreLockOptions options)
    : claim_(storage, folder, options),
      heartbeat_seconds_(options.heartbeat_seconds),
      object_name_(name_of_claim(options.owner.id)) {
  claim_.acquire();
  thread_ = std::thread([this] { beat(); });
  try {
    storage.remove_unfinished(folder);     // of processes that were killed
  } catch (const std::exception& error) {  // seldom is anything there, and few may ask
    log_debug(cat("cannot remove unfinished uploads: ", error.what()));
  }
}

StoreLock::~StoreLock() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (!lost_) claim_.try_to_release();
}

void StoreLock::beat() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    wake_.wait_for(lock, std::chrono::duration<double>(heartbeat_seconds_), [&] { return ends_; });
    if (ends_ || lost_) continue;
    try {
      lost_ = !claim_.renew();
    } catch (const Error& error) {
      log_debug(cat("the lock was not renewed: ", error.what()));
    }
  }
}

bool StoreLock::is_held() {
  const std::lock_guard lock(mutex_);
  if (lost_) return false;
  if (claim_.is_fresh()) return true;
  lost_ = !claim_.renew();
  return !lost_;
}

void StoreLock::require() {
  if (!is_held()) throw Error(ErrorCode::kUnavailable, claim_.loss());
}

}  // namespace emblem
