// Included first in builds with ThreadSanitizer: under it, protobuf's headers give maps two more
// members, which a libprotobuf that is compiled without it does not have.
#pragma once

#include <atomic>  // whose own use of the macro stays
#include <condition_variable>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>

#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")
