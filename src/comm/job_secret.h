// comm/job_secret.h - shared by the ranks of a job and known to no other process (comm/secret.h).
#pragma once

#include <string>

namespace emblem {

inline constexpr const char* kSecretVariable = "EMBLEM_JOB_SECRET";

std::string job_secret();       // of this process's environment; empty: the job has none
std::string make_job_secret();  // random

}  // namespace emblem
