#include "config/print.h"

#include <google/protobuf/text_format.h>

#include "emblem/error.h"

namespace emblem {

std::string to_text(const config::PipelineConfig& config) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  if (!printer.PrintToString(config, &text))
    throw Error(ErrorCode::kInternal, "cannot print a pipeline as text");
  return text;
}

}  // namespace emblem
