#include "launch/attempt.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <list>

#include "core/log.h"
#include "emblem/error.h"
#include "launch/blame.h"

namespace emblem {
namespace {

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
    for (const RankSeat& seat : settings_.seats)
      ranks_.emplace_back(
          seat, settings_.command(seat), settings_.remote,
          std::make_unique<RankOutput>(seat.rank, console_, settings_.log_folder, settings_.log),
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
      log_info(cat("rank ", failures_.front()->seat().rank, " failed; waiting for ", running(),
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
    const int first = failures_.front()->seat().rank;
    const int guilty = rank_to_blame(reports, first);
    const RankSeat& seat = settings_.seats[static_cast<size_t>(guilty)];
    result.end = AttemptEnd::kFailed;
    result.lost.failed_rank = guilty;
    result.failed_at = *failed_at_;
    result.seconds = std::chrono::duration<double>(*failed_at_ - start_).count();
    result.is_same_error = have_same_error(reports);
    result.failure = cat(name_of(seat), ": ", how_it_failed(reports[static_cast<size_t>(guilty)]));
    for (const RankProcess& rank : ranks_) {
      result.is_bad_usage |= rank.end().exit_status == kBadUsage;
      result.port_was_taken |= rank.seat().rank == 0 && rank.output().mentions_used_port();
      auto& hosts = result.lost.unreachable_hosts;
      if (rank.is_unreachable() &&
          std::find(hosts.begin(), hosts.end(), rank.seat().host) == hosts.end())
        hosts.push_back(rank.seat().host);
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

}  // namespace

AttemptResult run_attempt(const AttemptSettings& settings, SignalPipe& signals, Guard& guard) {
  return Attempt(settings, signals, guard).run();
}

}  // namespace emblem
