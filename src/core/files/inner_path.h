// core/files/inner_path.h - names that others chose (keys of a store, paths in a manifest or a
// request) as paths below a folder. No such name becomes a path in another way.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace emblem {

inline constexpr size_t kLongestFileName = 255;    // bytes, as file systems have it
inline constexpr size_t kLongestInnerPath = 1024;  // as stores have it

// What is wrong with `name` as the name of one file or folder, as the end of a sentence that begins
// with it: "is empty", "is \"..\""; "" if nothing is. Refused are "", ".", "..", '/', '\', control
// characters (NUL among them) and names above `longest` bytes.
std::string file_name_problem(std::string_view name, size_t longest = kLongestFileName);

// The same of a path of such names with single slashes between them: "tables/user/key". Refused
// are also slashes at its begin and end.
std::string inner_path_problem(std::string_view path);

// kRefuse: for writing into folders whose content others chose. A symbolic link below the folder
// is refused wherever it leads; the folder itself may be reached by one.
enum class Links { kFollow, kRefuse };

// FOLDER/NAME. Throws kInvalidArgument where inner_path_problem finds something, and for links.
std::string path_below(const std::string& folder, std::string_view name,
                       Links links = Links::kFollow);

}  // namespace emblem
