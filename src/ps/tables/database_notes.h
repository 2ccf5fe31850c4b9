// ps/tables/database_notes.h - what databases remember of the tables in them, so that another
// start, or another server, knows: what a table was filled with, and which deltas the tables of a
// model have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/kv_store.h"

namespace emblem {

// The note of a table: a text that stands for its content, or one of these.
std::string content_note(const std::string& table);
inline constexpr const char* kRefilling = "refilling";    // rows are missing: not to be read
inline constexpr const char* kIncomplete = "incomplete";  // being filled over those of another
                                                          // version, which are whole

// The number of the last delta that all tables of a model have; nothing when it is not known.
std::optional<int64_t> delta_sequence(const KvStore& store, const std::string& model);
void set_delta_sequence(KvStore& store, const std::string& model, int64_t sequence);

}  // namespace emblem
