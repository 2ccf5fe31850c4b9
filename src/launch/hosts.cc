#include "launch/hosts.h"

#include <algorithm>
#include <map>

#include "comm/tcp/host_name.h"
#include "core/text/parse_number.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int kMostRanks = 1024;
constexpr int kFailuresToLeave = 2;

struct HostWord {
  std::string host;
  int ranks = 0;  // 0: no number
};

bool is_host_name(const std::string& host) {
  constexpr const char* kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@:[]%";
  return !host.empty() && host.front() != '-' && host.back() != '@' &&
         host.find_first_not_of(kAllowed) == std::string::npos;
}

int parse_ranks(const std::string& text, const std::string& word) {
  const int ranks = parse_number<int>(text).value_or(0);
  EMBLEM_REQUIRE(ranks >= 1 && ranks <= kMostRanks, "--hosts: \"", word, "\" has \"", text,
                 "\" after the colon; expected 1 to ", kMostRanks, " ranks, as in b:2");
  return ranks;
}

HostWord parse_word(const std::string& given) {
  const std::string word(trim(given));
  const size_t bracket = word.find(']');
  const size_t colon = word.find(':', bracket == std::string::npos ? 0 : bracket);
  HostWord parsed{word.substr(0, colon)};
  EMBLEM_REQUIRE(is_host_name(parsed.host), "--hosts: \"", word,
                 "\" is not a host; expected HOST or HOST:RANKS, separated by commas");
  if (colon != std::string::npos) parsed.ranks = parse_ranks(word.substr(colon + 1), word);
  return parsed;
}

// The hosts' shares of `ranks`, in blocks; the first ones have one more where it does not divide.
void divide(int ranks, std::vector<HostWord>& words) {
  const int hosts = static_cast<int>(words.size());
  EMBLEM_REQUIRE(ranks >= hosts, "--ranks ", ranks, " is less than the ", hosts,
                 " hosts of --hosts; give at least one rank to each");
  for (int i = 0; i < hosts; ++i)
    words[static_cast<size_t>(i)].ranks = ranks / hosts + (i < ranks % hosts ? 1 : 0);
}

}  // namespace

std::vector<HostRanks> parse_hosts(const std::vector<std::string>& given, int ranks) {
  EMBLEM_REQUIRE(ranks <= kMostRanks, "--ranks ", ranks, ": expected 1 to ", kMostRanks);
  if (given.empty()) {
    EMBLEM_REQUIRE(ranks >= 1, "the number of ranks is missing; give --ranks N or --hosts");
    return {{kThisMachine, ranks}};
  }
  std::vector<HostWord> words;
  for (const std::string& word : given) words.push_back(parse_word(word));
  const bool has_numbers =
      std::any_of(words.begin(), words.end(), [](const HostWord& word) { return word.ranks > 0; });
  if (!has_numbers && ranks > 0) divide(ranks, words);
  std::vector<HostRanks> hosts;
  int total = 0;
  for (const HostWord& word : words) {
    EMBLEM_REQUIRE(std::none_of(hosts.begin(), hosts.end(),
                                [&](const HostRanks& other) { return other.host == word.host; }),
                   "--hosts: \"", word.host, "\" is a duplicate; write ", word.host,
                   ":2 for two ranks there");
    hosts.push_back({word.host, std::max(1, word.ranks)});
    total += hosts.back().ranks;
  }
  EMBLEM_REQUIRE(ranks == 0 || total == ranks, "--ranks is ", ranks, ", but --hosts has ", total,
                 " ranks; omit --ranks, or change the numbers of the hosts");
  EMBLEM_REQUIRE(total <= kMostRanks, "--hosts has ", total, " ranks; expected 1 to ", kMostRanks);
  return hosts;
}

std::string address_of(const std::string& host) {
  std::string address = host.substr(host.rfind('@') + 1);
  if (address.size() > 2 && address.front() == '[' && address.back() == ']')
    address = address.substr(1, address.size() - 2);
  return address;
}

std::string name_of(const RankSlot& slot) {
  return cat("rank ", slot.rank, " of ", slot.size, " (host ",
             slot.host == kThisMachine ? host_name() : slot.host, ")");
}

RankRoster::RankRoster(const std::vector<HostRanks>& hosts, int least_ranks)
    : least_ranks_(least_ranks) {
  for (const HostRanks& host : hosts)
    members_.insert(members_.end(), static_cast<size_t>(host.ranks), Member{host.host});
}

std::vector<RankSlot> RankRoster::slots() const {
  std::map<std::string, int> ranks_of_host;
  std::vector<RankSlot> slots;
  for (const Member& member : members_) {
    RankSlot slot;
    slot.rank = static_cast<int>(slots.size());
    slot.size = static_cast<int>(members_.size());
    slot.local_rank = ranks_of_host[member.host]++;
    slot.host = member.host;
    slots.push_back(slot);
  }
  for (RankSlot& slot : slots) slot.local_size = ranks_of_host[slot.host];
  return slots;
}

bool RankRoster::remove_host(const std::string& host) {
  std::vector<Member> left;
  std::copy_if(members_.begin(), members_.end(), std::back_inserter(left),
               [&](const Member& member) { return member.host != host; });
  if (left.size() == members_.size() || std::ssize(left) < std::max(1, least_ranks_)) return false;
  members_ = std::move(left);
  return true;
}

std::vector<std::string> RankRoster::remove(const LostRanks& lost) {
  std::vector<std::string> lines;
  const auto left = [&] { return cat("; ranks left: ", members_.size()); };
  for (Member& member : members_) {
    const bool failed = lost.failed_rank == &member - members_.data();
    member.failures_in_a_row = failed ? member.failures_in_a_row + 1 : 0;
  }
  const bool leaves =
      lost.failed_rank >= 0 && std::ssize(members_) > std::max(1, least_ranks_) &&
      members_[static_cast<size_t>(lost.failed_rank)].failures_in_a_row >= kFailuresToLeave;
  if (leaves && lost.unreachable_hosts.empty()) {
    const RankSlot slot = slots()[static_cast<size_t>(lost.failed_rank)];
    members_.erase(members_.begin() + lost.failed_rank);
    lines.push_back(cat(name_of(slot), " failed ", kFailuresToLeave,
                        " times in a row and leaves the job", left()));
  }
  for (const std::string& host : lost.unreachable_hosts)
    if (remove_host(host))
      lines.push_back(cat("host ", host, " cannot be reached and leaves the job", left()));
  return lines;
}

}  // namespace emblem
