// core/system/interrupt.h - a request to stop, for the whole process: loops look for it and end at
// a good moment. The program makes it of signals (launch/interrupt_handler.h); a program that uses
// Emblem as a library makes it itself.
#pragma once

namespace emblem {

// Whether the process was asked to stop.
bool interrupted();

// Asks to stop, as `signal` does, which may be the one whose handler calls this. The signal that
// asked before; 0: this is the first request.
int request_interrupt(int signal);

// Forgets the request.
void clear_interrupt();

// The exit status that shells expect after that signal: 130 for SIGINT, 143 for SIGTERM, 129 for
// SIGHUP; 0 when there was none.
int interrupted_status();

}  // namespace emblem
