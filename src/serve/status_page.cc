#include "serve/status_page.h"

namespace emblem {
std::string_view status_page() { return "<!doctype html><title>Emblem</title>"; }
}  // namespace emblem
