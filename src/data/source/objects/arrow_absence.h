// data/source/objects/arrow_absence.h - the errors of a program that was built without Arrow.
#pragma once

#include <string_view>

namespace emblem {

// Why there is no Arrow, and what to do, as the end of a message. Not called in a program with it.
std::string_view arrow_absence();

}  // namespace emblem
