// remote/store_lock.h - one writer at a time of a remote folder, among all machines.
//
// The stores offer no write that fails where an object exists. Each process that wants the lock
// writes an object of its own, FOLDER/.lock/ID.json (a claim: who, since when, a counter that a
// holder raises at every heartbeat), and lists all claims afterwards. It holds the lock when there
// is no other claim. Of two processes that see each other's claims the later one (by the time in
// the claim, then by ID) withdraws, and the earlier one waits for that. A claim whose counter has
// not changed for `expiry_seconds` has expired and is removed by the next process that wants the
// lock; that of a process which ended on this machine at once. Clocks of machines are not compared.
//
// With stores whose listings show every finished write (S3, GCS, Azure, HDFS), two processes hold
// the lock at the same time only if one of them did not reach the store for `expiry_seconds` (it
// was suspended, or cut off) and another one took over. The first one finds out at its next
// heartbeat (also one whose write took effect after that), or when it asks is_held(), which it does
// before every request that writes or removes (before_write()): at most the requests that were
// under way then still reach the store.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "data/source/remote_storage.h"

namespace emblem {

// The owner of a claim. Owners on the same machine see each other's processes.
struct LockOwner {
  std::string id;       // random id of the claim
  std::string host;     // for messages
  std::string machine;  // host, boot and process namespace
  int64_t process = 0;
  // Start of the process, in clock ticks since the boot: numbers are used again.
  int64_t started = 0;
};

LockOwner this_process();
// Whether the process of a claim has certainly ended: it was one of this machine.
bool has_ended(const LockOwner& owner);

struct StoreLockOptions {
  double heartbeat_seconds = 15;
  double expiry_seconds = 60;
  double contest_seconds = 20;  // the earlier of two waits so long for the later to withdraw
  LockOwner owner = this_process();
  // The name in the message to one that is refused: "is in use by another training (...);
  // REMEDY".
  std::string user = "training";
  std::string remedy = "wait until it has ended, or give another --model-dir";
  // Seconds since 1970 by a clock that also runs while the machine sleeps, and a pause; for tests.
  std::function<double()> now;
  std::function<void(double)> wait;
};

// The options, shortened by EMBLEM_TEST_LOCK_SECONDS in builds with tests.
StoreLockOptions store_lock_options();

// The protocol, without a thread. Used by one thread at a time.
class LockClaim {
 public:
  LockClaim(RemoteStorage& storage, std::string folder, StoreLockOptions options);

  // Throws kUnavailable that names the holder when there is one. Waits while it is not known
  // whether a holder is alive: up to its expiry.
  void acquire();
  // Renews the claim. False, forever, when another process took over.
  bool renew();
  // Whether the claim was renewed so recently that no process can have taken over.
  bool is_fresh() const;
  // The message to a holder that is none any more.
  std::string loss() const;
  void release();
  // Releases, with a warning where that fails.
  void try_to_release();

 private:
  struct Claim {
    LockOwner owner;
    double began = 0;
    std::string version;  // changes whenever the object is written
  };

  // kAfterWriting: the own claim must be in the listing, or that is not true.
  enum class Moment { kBeforeWriting, kAfterWriting };
  std::map<std::string, Claim> others(Moment moment);
  std::string address_of(const std::string& id) const;
  double write();
  // Whether others may take over: the last renewal was too long ago.
  bool has_expired() const;
  bool is_later_than(const Claim& other) const;
  void wait_for_holders();
  void win_contest();
  void remove_expired();
  [[noreturn]] void refuse(const Claim& holder) const;

  RemoteStorage& storage_;
  std::string folder_;
  StoreLockOptions options_;
  double began_ = 0;
  int64_t counter_ = 0;
  double renewed_ = 0;
  bool lost_ = false;
  std::map<std::string, std::string> expired_;  // claims by id, with their version
};

// Acquired by the constructor, which also removes what uploads of earlier holders left unfinished;
// renewed by a thread, released by the destructor. is_held() may be called by any thread.
class StoreLock {
 public:
  StoreLock(RemoteStorage& storage, const std::string& folder,
            StoreLockOptions options = store_lock_options());
  ~StoreLock();
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;

  // False, forever, after another process took over.
  bool is_held();
  // Throws kUnavailable unless it is held.
  void require();
  // require(), for all requests that write to the folder.
  BeforeWrite before_write() {
    return [this] { require(); };
  }
  // The name of the lock's object within the folder.
  const std::string& object_name() const { return object_name_; }

 private:
  void beat();

  std::mutex mutex_;  // guards what follows
  LockClaim claim_;
  bool lost_ = false, ends_ = false;
  std::condition_variable wake_;
  const double heartbeat_seconds_;
  const std::string object_name_;
  std::thread thread_;
};

}  // namespace emblem
