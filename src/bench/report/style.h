// bench/report/style.h - the style sheet of a report: light and dark, wide and narrow, screen and
// paper.
#pragma once

namespace emblem {

extern const char kReportStyle[];

}  // namespace emblem
