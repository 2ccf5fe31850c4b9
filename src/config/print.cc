#include "config/print.h"

#include <google/protobuf/text_format.h>

#include "config/semantics.h"
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

std::string to_stored_text(config::PipelineConfig config) {
  record_semantics(&config);
  return to_text(config);
}

}  // namespace emblem
