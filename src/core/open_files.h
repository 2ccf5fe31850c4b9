// core/open_files.h - how many files this process may have open.
#pragma once

namespace emblem {

// As many as the system lets it have without asking anybody: shells start programs with far fewer
// (1,024) than a data set of many small files has.
void raise_open_file_limit();

}  // namespace emblem
