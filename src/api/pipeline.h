// api/pipeline.h - the state of a public Pipeline.
#pragma once

#include <string>

#include "config/proto/pipeline.pb.h"
#include "emblem/pipeline.h"

namespace emblem {

struct api::Pipeline::State {
  std::string text;  // with its comments; "" once a field was set
  config::PipelineConfig config;

  static Pipeline make(std::string text, config::PipelineConfig config) {
    return Pipeline(std::unique_ptr<State>(new State{std::move(text), std::move(config)}));
  }
};

}  // namespace emblem
