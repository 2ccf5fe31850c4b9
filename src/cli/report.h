// cli/report.h - `emblem report`.
#pragma once

namespace CLI {
class App;
}

namespace emblem {

void add_report(CLI::App& program);

}  // namespace emblem
