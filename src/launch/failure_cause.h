// launch/failure_cause.h - which rank made a job fail: the others end because of it, some before it
// does.
#pragma once

#include <string>
#include <vector>

#include "launch/rank_process.h"

namespace emblem {

struct RankReport {
  RankEnd end;
  std::string last_error_line;  // last line of its stderr
};

// The rank whose failure ended the job. `reports` are by rank; `first_failed` was noticed first.
// A rank that a signal killed counts before the one that most others name ("rank 3 (host b):
// connection closed"), and that before the first.
int find_failed_rank(const std::vector<RankReport>& reports, int first_failed);

// "exit status 1", or that it had to be stopped.
std::string how_it_failed(const RankReport& report);

// Whether all ranks ended by themselves with the same status, not by signals, and the same message,
// apart from the name of the rank that had it first, and one of them had it first.
bool have_same_error(const std::vector<RankReport>& reports);

// The signal by which the ranks were interrupted, though the launcher was not: a rank that gets one
// tells the others, and all end with the status of a signal. 0: they were not.
int interruption_of(const std::vector<RankReport>& reports);

}  // namespace emblem
