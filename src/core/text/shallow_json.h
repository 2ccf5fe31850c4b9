// core/text/shallow_json.h - JSON that others have made: nlohmann/json copies, compares and writes
// values recursively, so values that are nested very deeply would end the process.
#pragma once

namespace emblem {

// A callback of nlohmann's parsers, which drops what is nested more deeply than anything that is
// read: fields then seem to be missing.
inline constexpr auto shallow_json = [](int depth, auto&&...) { return depth <= 64; };

}  // namespace emblem
