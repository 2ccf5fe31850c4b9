// cli/convert.h - emblem convert.
#pragma once

namespace CLI {
class App;
}

namespace emblem {

void add_convert(CLI::App& program);

}  // namespace emblem
