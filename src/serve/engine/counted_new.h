// serve/engine/counted_new.h - has operator new allocate by core/memory/heap_account.h in programs
// that serve models.
#pragma once

namespace emblem {

// Programs that call this have the operators of counted_new.cc.
void count_operator_new();

}  // namespace emblem
