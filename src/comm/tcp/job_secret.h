// comm/tcp/job_secret.h - the secret that the ranks of a job share and no other process knows
// (comm/tcp/secret.h).
#pragma once

#include <string>

namespace emblem {

inline constexpr const char* kSecretVariable = "EMBLEM_JOB_SECRET";

std::string job_secret();       // secret in this process's environment; empty: the job has none
std::string make_job_secret();  // random

}  // namespace emblem
