// core/files/open_files.h - how many files this process may have open.
#pragma once

#include <cstddef>

namespace emblem {

// As many as the system lets it have without asking anybody: shells start programs with far fewer
// (1,024) than a data set of many small files has.
void raise_open_file_limit();

// As many as it may have, and as it has now.
size_t open_file_limit();
size_t open_files();

}  // namespace emblem
