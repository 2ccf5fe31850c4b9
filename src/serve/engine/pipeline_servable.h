// serve/engine/pipeline_servable.h - a model that Emblem trained, from the folder that emblem
// export wrote.
#pragma once

#include <memory>
#include <string>

#include "config/feature/features.h"
#include "config/proto/pipeline.pb.h"
#include "model/predict/predictor.h"
#include "ps/parameter_server.h"
#include "ps/remote/table_servers.h"
#include "serve/engine/model_options.h"
#include "serve/engine/servable.h"

namespace emblem {

// An opened model: besides engines for requests it makes predictors for batches in memory, which
// share its tables. It outlives them.
class PipelineServable : public Servable {
 public:
  virtual const config::PipelineConfig& config() const = 0;
  virtual const FeatureLayout& layout() const = 0;  // without labels
  virtual std::unique_ptr<Predictor> make_predictor() const = 0;
};

// Opens a version folder: verifies its files, loads its tables into the parameter server, which
// must outlive the servable, and keeps the dense parameters. Engines are as `options` say.
std::unique_ptr<PipelineServable> open_pipeline(const std::string& name, int64_t version,
                                                const std::string& folder,
                                                const ModelOptions& options,
                                                ParameterServer& tables);

// The same with rows from table servers, which must outlive the servable. Files of tables are not
// read. Throws kUnavailable while parts of the version are on no server that answers.
std::unique_ptr<Servable> open_pipeline(const std::string& name, int64_t version,
                                        const std::string& folder, const ModelOptions& options,
                                        TableServers& servers);

// The servable without tables and parameters, which is all that a model configuration needs.
std::unique_ptr<Servable> describe_pipeline(const std::string& folder);

}  // namespace emblem
