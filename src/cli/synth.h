// cli/synth.h - emblem synth.
#pragma once

namespace CLI {
class App;
}

namespace emblem {

void add_synth(CLI::App& program);

}  // namespace emblem
