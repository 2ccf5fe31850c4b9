// launch/supervise.h - the part of `emblem launch` that runs on other hosts, one for each rank.
#pragma once

namespace emblem {

// Reads a command (launch/rank_command.h) from stdin and runs it; its output is that of this
// process. Then stdin has lines "signal N" for it. Its end, a signal to this process or a failure
// here ends the rank: first by SIGTERM, after 5 s by SIGKILL. Returns its exit status, or 128 + the
// signal that killed it.
int supervise();

}  // namespace emblem
