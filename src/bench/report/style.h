// bench/report/style.h - the style sheet of a report, for light and dark themes, phones and
// printing.
#pragma once

namespace emblem {

extern const char kReportStyle[];

}  // namespace emblem
