#include "launch/launch.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "comm/tcp/host_name.h"
#include "comm/tcp/job_secret.h"
#include "comm/tcp/launcher.h"
#include "core/files/file_descriptor.h"
#include "core/system/log.h"
#include "core/system/process.h"
#include "core/system/seconds_since.h"
#include "core/text/text.h"
#include "emblem/error.h"
#include "launch/failure_cause.h"
#include "launch/rank_process.h"
#include "launch/signal_pipe.h"

namespace emblem {
namespace {

// All ranks of a job, started once.
struct AttemptSettings {
  std::vector<RankSlot> slots;
  std::function<RankCommand(const RankSlot&)> command;
  RemoteShell remote;
  std::string log_folder;  // "": no log files
  LogFile log = LogFile::kNew;
  double end_seconds = 5;  // for the other ranks to end by themselves after a failure
};

enum class AttemptEnd { kSucceeded, kFailed, kInterrupted };

struct AttemptResult {
  AttemptEnd end = AttemptEnd::kSucceeded;
  int signal = 0;  // that interrupted it
  // What a failure was:
  LostRanks lost;
  std::string failure;  // "rank 2 of 4 (host b): exit status 1"
  std::chrono::steady_clock::time_point failed_at;
  double seconds = 0;          // from the start to the failure
  bool is_same_error = false;  // all ranks ended with the same status and message
  bool is_bad_usage = false;   // a rank ended with the exit status of invalid options
  bool port_was_taken = false;
};

using Clock = std::chrono::steady_clock;

constexpr double kNoticeSeconds = 1;       // from a failure to a line that says who still runs
constexpr double kTermSeconds = 5;         // between SIGTERM and SIGKILL
constexpr double kUnreachableSeconds = 2;  // between SIGKILL and the end of the connection
constexpr int kBadUsage = 2;

class Attempt {
 public:
  Attempt(const AttemptSettings& settings, SignalPipe& signals, Guard& guard)
      : settings_(settings),
        signals_(signals),
        guard_(guard),
        console_([this] { take_signals(); }) {}

  AttemptResult run() {
    for (const RankSlot& slot : settings_.slots)
      ranks_.emplace_back(
          slot, settings_.command(slot), settings_.remote,
          std::make_unique<RankOutput>(slot.rank, console_, settings_.log_folder, settings_.log),
          guard_);
    while (running() > 0) {
      wait();
      take_signals();
      for (RankProcess& rank : ranks_)
        if (rank.update() && rank.end().failed()) note_failure(rank);
      escalate();
    }
    console_.end_open_lines(STDERR_FILENO);
    return result();
  }

 private:
  // What has been done about the ranks that still run after a failure, in this order.
  enum class Stage { kNone, kNoticed, kTerminated, kKilled, kAbandoned };

  int64_t running() const {
    return std::count_if(ranks_.begin(), ranks_.end(),
                         [](const RankProcess& rank) { return rank.is_running(); });
  }

  void wait() {
    std::vector<pollfd> waiting = {{signals_.descriptor(), POLLIN, 0}};
    for (RankProcess& rank : ranks_) {
      if (!rank.is_running()) continue;
      waiting.push_back({rank.output().output_descriptor(), POLLIN, 0});
      waiting.push_back({rank.output().error_descriptor(), POLLIN, 0});
      if (rank.has_bytes_to_send()) waiting.push_back({rank.control_descriptor(), POLLOUT, 0});
    }
    poll(waiting.data(), waiting.size(), failed_at_ ? 50 : -1);
  }

  void take_signals() {
    for (const int signal : signals_.take()) {
      for (RankProcess& rank : ranks_) rank.send_signal(interrupted_by_ == 0 ? signal : SIGKILL);
      if (interrupted_by_ != 0) {
        failed_at_ = failed_at_.value_or(Clock::now());
        stage_ = std::max(stage_, Stage::kKilled);
        stage_since_ = Clock::now();
      }
      if (interrupted_by_ == 0) interrupted_by_ = signal;
    }
  }

  void note_failure(const RankProcess& rank) {
    if (interrupted_by_ != 0) return;  // they end because of it, each when its work is saved
    if (!failed_at_) stage_since_ = failed_at_.emplace(Clock::now());
    if (!rank.end().was_told) failures_.push_back(&rank);
  }

  void escalate() {
    if (!failed_at_ || running() == 0) return;
    const auto passed = [this](double seconds) {
      return Clock::now() - stage_since_ >= std::chrono::duration<double>(seconds);
    };
    const auto enter = [this](Stage stage) {
      stage_ = stage;
      stage_since_ = Clock::now();
    };
    if (stage_ == Stage::kNone && passed(std::min(kNoticeSeconds, settings_.end_seconds))) {
      console_.end_open_lines(STDERR_FILENO);
      log_info(cat("rank ", failures_.front()->slot().rank, " failed; waiting for ", running(),
                   running() == 1 ? " other rank" : " other ranks", " to end"));
      stage_ = Stage::kNoticed;
    } else if (stage_ == Stage::kNoticed && passed(settings_.end_seconds)) {
      for (RankProcess& rank : ranks_) rank.send_signal(SIGTERM);
      enter(Stage::kTerminated);
    } else if (stage_ == Stage::kTerminated && passed(kTermSeconds)) {
      for (RankProcess& rank : ranks_) rank.send_signal(SIGKILL);
      enter(Stage::kKilled);
    } else if (stage_ == Stage::kKilled && passed(kUnreachableSeconds)) {
      for (RankProcess& rank : ranks_) rank.abandon();
      enter(Stage::kAbandoned);
    }
  }

  AttemptResult result() const {
    AttemptResult result;
    if (interrupted_by_ != 0) {
      result.end = AttemptEnd::kInterrupted;
      result.signal = interrupted_by_;
      return result;
    }
    if (failures_.empty()) return result;
    std::vector<RankReport> reports;
    for (const RankProcess& rank : ranks_)
      reports.push_back({rank.end(), rank.output().last_error_line()});
    result.signal = interruption_of(reports);
    if (result.signal != 0) {
      result.end = AttemptEnd::kInterrupted;
      return result;
    }
    const int first = failures_.front()->slot().rank;
    const int failed = find_failed_rank(reports, first);
    const RankSlot& slot = settings_.slots[static_cast<size_t>(failed)];
    result.end = AttemptEnd::kFailed;
    result.lost.failed_rank = failed;
    result.failed_at = *failed_at_;
    result.seconds = std::chrono::duration<double>(*failed_at_ - start_).count();
    result.is_same_error = have_same_error(reports);
    result.failure = cat(name_of(slot), ": ", how_it_failed(reports[static_cast<size_t>(failed)]));
    for (const RankProcess& rank : ranks_) {
      result.is_bad_usage |= rank.end().exit_status == kBadUsage;
      result.port_was_taken |= rank.slot().rank == 0 && rank.output().mentions_used_port();
      auto& hosts = result.lost.unreachable_hosts;
      if (rank.is_unreachable() &&
          std::find(hosts.begin(), hosts.end(), rank.slot().host) == hosts.end())
        hosts.push_back(rank.slot().host);
    }
    if (!result.lost.unreachable_hosts.empty())
      result.failure = cat("cannot reach host ", result.lost.unreachable_hosts.front(), ": ",
                           settings_.remote.ssh.front(), " ended with exit status 255");
    return result;
  }

  const AttemptSettings& settings_;
  SignalPipe& signals_;
  Guard& guard_;
  Console console_;
  const Clock::time_point start_ = Clock::now();
  std::list<RankProcess> ranks_;
  std::vector<const RankProcess*> failures_;  // in the order in which they were noticed
  std::optional<Clock::time_point> failed_at_;
  Stage stage_ = Stage::kNone;
  Clock::time_point stage_since_;
  int interrupted_by_ = 0;
};

// Runs until all ranks have ended. After a failure the others get `end_seconds`, then SIGTERM, then
// SIGKILL. A request to stop (SIGINT, SIGTERM) is passed on to all ranks; the second one kills
// them. Throws where a rank cannot be started on this machine; all others have ended then.
AttemptResult run_attempt(const AttemptSettings& settings, SignalPipe& signals, Guard& guard) {
  return Attempt(settings, signals, guard).run();
}

// A free port of this machine. It is kept from programs that ask for any port while this exists; a
// rank that asks for this one gets it.
class ReservedPort {
 public:
  ReservedPort();
  uint16_t port() const { return port_; }

 private:
  FileDescriptor socket_{-1};
  uint16_t port_ = 0;
};

ReservedPort::ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const int yes = 1;
  // Bound without SO_REUSEADDR, so that the port is new; with it afterwards, so that a rank, which
  // sets it as well, can listen there.
  if (socket_.get() < 0 || bind(socket_.get(), generic, size) != 0 ||
      getsockname(socket_.get(), generic, &size) != 0 ||
      setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0)
    throw Error(ErrorCode::kUnavailable, cat("cannot find a free port: ", std::strerror(errno),
                                             "; give --rendezvous HOST:PORT"));
  port_ = ntohs(address.sin_port);
}

// A port of another machine that is probably free: below those that systems give away.
uint16_t guess_port() {
  std::random_device device;
  return std::uniform_int_distribution<uint16_t>(20000, 29999)(device);
}

using Clock = std::chrono::steady_clock;

constexpr int kMostPorts = 10;  // that are tried because others took them
// An error that all ranks have this soon comes from the configuration: it would come again.
constexpr double kEarlySeconds = 30;

// Waits, unless a request to stop arrives: then it is returned.
int wait_for_restart(double seconds, SignalPipe& signals) {
  const auto start = Clock::now();
  while (true) {
    for (const int signal : signals.take()) return signal;
    const double left = seconds - seconds_since(start);
    if (left <= 0) return 0;
    pollfd waiting{signals.descriptor(), POLLIN, 0};
    poll(&waiting, 1, static_cast<int>(std::ceil(left * 1000)));
  }
}

std::vector<std::string> ssh_words(const std::string& given) {
  if (given.empty()) return {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"};
  std::vector<std::string> words;
  for (const std::string& word : split(given, ' '))
    if (!word.empty()) words.push_back(word);
  EMBLEM_REQUIRE(!words.empty(), "--ssh is empty; expected a program, as \"ssh -p 2222\"");
  return words;
}

class Job {
 public:
  explicit Job(const LaunchOptions& options)
      : options_(options),
        hosts_(parse_hosts(options.hosts, options.ranks)),
        roster_(hosts_, options.least_ranks > 0 ? options.least_ranks : total()) {
    EMBLEM_REQUIRE(!options.command.empty() || !options.program.empty(),
                   "no command is given; expected emblem launch --ranks N -- COMMAND, as "
                   "-- train --config FILE");
    EMBLEM_REQUIRE(options.least_ranks <= total(), "--least-ranks ", options.least_ranks,
                   " is more than the ", total(), " ranks of the job");
    EMBLEM_REQUIRE(options.least_ranks == 0 || options.restarts > 0,
                   "--least-ranks needs --restarts: ranks leave when the job is started again");
    if (!options.rendezvous.empty()) rendezvous_ = parse_rendezvous(options.rendezvous);
    remote_ = {ssh_words(options.ssh), program_path()};
    if (secret_.empty()) secret_ = make_job_secret();
  }

  int run() {
    Guard guard;
    SignalPipe signals;
    while (true) {
      const AttemptResult result = attempt(signals, guard);
      if (result.end == AttemptEnd::kSucceeded) return 0;
      if (result.end == AttemptEnd::kInterrupted) return kStatusOfSignal + result.signal;
      failed_at_ = result.failed_at;
      if (should_try_another_port(result)) continue;
      was_running_ |= result.seconds > kEarlySeconds;
      require_restart(result);
      for (const std::string& line : roster_.remove(result.lost)) log_warn(line);
      if (const int signal = wait_for_restart(seconds_before_restart(restarts_), signals))
        return kStatusOfSignal + signal;
    }
  }

 private:
  int total() const {
    int ranks = 0;
    for (const HostRanks& host : hosts_) ranks += host.ranks;
    return ranks;
  }

  AttemptResult attempt(SignalPipe& signals, Guard& guard) {
    AttemptSettings settings;
    settings.slots = roster_.slots();
    const std::string& first_host = settings.slots.front().host;
    const bool is_one_host = settings.slots.front().local_size == settings.slots.front().size;
    std::string address = address_of(first_host);
    std::optional<ReservedPort> reserved;
    uint16_t port = 0;
    if (rendezvous_) {
      address = rendezvous_->first;
      port = rendezvous_->second;
    } else if (first_host == kThisMachine) {
      address = is_one_host ? "127.0.0.1" : host_name();
      port = reserved.emplace().port();
    } else {
      port = guess_port();
    }
    settings.remote = remote_;
    settings.log_folder = options_.log_folder;
    settings.log = is_first_ ? LogFile::kNew : LogFile::kContinued;
    settings.end_seconds = options_.end_seconds;
    settings.command = [&](const RankSlot& slot) { return command_of(slot, address, port); };
    if (failed_at_ && restarts_ > 0)
      log_info(cat("restart ", restarts_, ": ", settings.slots.size(), " ranks, ",
                   format_duration(seconds_since(*failed_at_)), " after the failure"));
    is_first_ = false;
    return run_attempt(settings, signals, guard);
  }

  RankCommand command_of(const RankSlot& slot, const std::string& address, int port) const {
    RankCommand command;
    command.arguments = {options_.program.empty() ? program_path() : options_.program};
    for (std::string& argument : arguments_of_attempt(options_, restarts_))
      command.arguments.push_back(std::move(argument));
    command.folder = std::filesystem::current_path().string();
    command.environment = rank_variables(slot, address, port);
    command.environment.emplace_back("EMBLEM_RESTART", cat(restarts_));
    command.environment.emplace_back(kSecretVariable, secret_);
    if (slot.host != kThisMachine)
      for (auto& variable : emblem_variables())
        if (variable.first != "EMBLEM_RESTART" && variable.first != kHostNameVariable &&
            variable.first != kSecretVariable)
          command.environment.push_back(std::move(variable));
    return command;
  }

  bool should_try_another_port(const AttemptResult& result) {
    if (rendezvous_ || !result.port_was_taken || ++ports_tried_ >= kMostPorts) return false;
    log_info(cat(result.failure, ": its port was taken; trying another one"));
    return true;
  }

  // Throws when the job is not started again.
  void require_restart(const AttemptResult& result) {
    const auto fail = [&](const std::string& why) {
      throw Error(ErrorCode::kUnavailable, result.failure + why);
    };
    if (options_.restarts == 0) fail("");
    if (result.is_bad_usage && options_.program.empty())
      fail("; not restarted: its options are not valid");
    if (result.is_same_error && !was_running_)
      fail("; not restarted: all ranks ended with the same error soon after the start");
    if (restarts_ == options_.restarts) fail(cat("; failed after ", restarts_, " restarts"));
    ++restarts_;
    log_warn(cat(result.failure, "; restart ", restarts_, " of ", options_.restarts, " in ",
                 seconds_before_restart(restarts_), " s"));
  }

  const LaunchOptions& options_;
  const std::vector<HostRanks> hosts_;
  RankRoster roster_;
  std::optional<std::pair<std::string, uint16_t>> rendezvous_;
  RemoteShell remote_;
  std::string secret_ = job_secret();  // the same after a restart: others may still use the port
  int restarts_ = 0, ports_tried_ = 0;
  bool is_first_ = true;
  bool was_running_ = false;  // an attempt has failed later than kEarlySeconds
  std::optional<Clock::time_point> failed_at_;
};

}  // namespace

std::vector<std::string> arguments_of_attempt(const LaunchOptions& options, int restarts) {
  std::vector<std::string> arguments = options.command;
  const bool is_train = options.program.empty() && !arguments.empty() && arguments[0] == "train";
  const bool resumes = std::find(arguments.begin(), arguments.end(), "--resume") != arguments.end();
  if (is_train && restarts > 0 && !resumes) arguments.emplace_back("--resume");
  return arguments;
}

double seconds_before_restart(int restart) {
  constexpr double kMost = 30;
  return std::min(kMost, std::exp2(std::max(0, restart - 1)));
}

int launch(const LaunchOptions& options) { return Job(options).run(); }

}  // namespace emblem
