#include "launch/launch.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include "comm/host_name.h"
#include "comm/job_secret.h"
#include "comm/launcher.h"
#include "core/log.h"
#include "core/process.h"
#include "core/text.h"
#include "emblem/error.h"
#include "launch/attempt.h"
#include "launch/meeting_port.h"

namespace emblem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStatusOfSignal = 128;
constexpr int kMostPorts = 10;  // that are tried because others took them
// An error that all ranks have this soon comes from the configuration: it would come again.
constexpr double kEarlySeconds = 30;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

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
    if (!options.meet.empty()) meet_ = parse_meeting_point(options.meet);
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
    settings.seats = roster_.seats();
    const std::string& first_host = settings.seats.front().host;
    const bool is_one_host = settings.seats.front().local_size == settings.seats.front().size;
    std::string address = address_of(first_host);
    std::optional<ReservedPort> reserved;
    uint16_t port = 0;
    if (meet_) {
      address = meet_->first;
      port = meet_->second;
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
    settings.command = [&](const RankSeat& seat) { return command_of(seat, address, port); };
    if (failed_at_ && restarts_ > 0)
      log_info(cat("restart ", restarts_, ": ", settings.seats.size(), " ranks, ",
                   format_duration(seconds_since(*failed_at_)), " after the failure"));
    is_first_ = false;
    return run_attempt(settings, signals, guard);
  }

  RankCommand command_of(const RankSeat& seat, const std::string& address, int port) const {
    RankCommand command;
    command.arguments = {options_.program.empty() ? program_path() : options_.program};
    for (std::string& argument : arguments_of_attempt(options_, restarts_))
      command.arguments.push_back(std::move(argument));
    command.folder = std::filesystem::current_path().string();
    command.environment = rank_variables(seat, address, port);
    command.environment.emplace_back("EMBLEM_RESTART", cat(restarts_));
    command.environment.emplace_back(kSecretVariable, secret_);
    if (seat.host != kThisMachine)
      for (auto& variable : emblem_variables())
        if (variable.first != "EMBLEM_RESTART" && variable.first != kHostNameVariable &&
            variable.first != kSecretVariable)
          command.environment.push_back(std::move(variable));
    return command;
  }

  bool should_try_another_port(const AttemptResult& result) {
    if (meet_ || !result.port_was_taken || ++ports_tried_ >= kMostPorts) return false;
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
  Roster roster_;
  std::optional<std::pair<std::string, uint16_t>> meet_;
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
