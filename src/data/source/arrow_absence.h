// data/source/arrow_absence.h - what a program without Arrow says to those who need it.
#pragma once

#include <string_view>

namespace emblem {

// Why there is no Arrow, and what to do, as the end of a message. Not called in a program with it.
std::string_view arrow_absence();

}  // namespace emblem
