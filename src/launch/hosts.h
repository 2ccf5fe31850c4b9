// launch/hosts.h - on which hosts the ranks of a job run, and which of them are left after
// failures.
#pragma once

#include <string>
#include <vector>

namespace emblem {

inline constexpr const char* kThisMachine = "localhost";

struct HostRanks {
  std::string host;  // as ssh knows it: "b", "user@b"; "localhost" is this machine, without ssh
  int ranks = 0;
};

// Words are HOST or HOST:RANKS ("[::1]:2" where the host has colons). A host without a number has
// one rank or, where no host has a number, its share of `ranks` in blocks. `ranks` 0: not given. No
// words: all ranks on this machine. Throws kInvalidArgument.
std::vector<HostRanks> parse_hosts(const std::vector<std::string>& words, int ranks);

// The address of a host for other ranks: without "user@" and brackets.
std::string address_of(const std::string& host);

struct RankSlot {
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string host;
};
std::string name_of(const RankSlot& slot);  // "rank 2 of 4 (host b)"

// How an attempt to run the job failed.
struct LostRanks {
  int failed_rank = -1;                        // the one that failed first; -1: none
  std::vector<std::string> unreachable_hosts;  // ssh did not get there
};

// The ranks of a job, numbered from 0 in the order of the hosts.
class RankRoster {
 public:
  RankRoster(const std::vector<HostRanks>& hosts, int least_ranks);

  std::vector<RankSlot> slots() const;

  // Hosts that cannot be reached leave the job, as does a rank that failed for the second time in a
  // row, as long as enough ranks are left. The others get new numbers. A line for each that left.
  std::vector<std::string> remove(const LostRanks& lost);

 private:
  struct Member {
    std::string host;
    int failures_in_a_row = 0;
  };
  bool remove_host(const std::string& host);

  std::vector<Member> members_;
  int least_ranks_;
};

}  // namespace emblem
