#include "config/check/semantics.h"

#include "emblem/error.h"

namespace emblem {
namespace {

// fg_encoded is the older spelling of fg_mode and goes before it, as in TorchEasyRec.
config::FgMode fg_mode_of(const config::DataConfig& data) {
  if (!data.has_fg_encoded()) return data.fg_mode();
  if (data.fg_encoded()) return config::FG_NONE;
  return data.fg_threads() > 0 ? config::FG_DAG : config::FG_NORMAL;
}

uint32_t version_of(const config::PipelineConfig& config) {
  if (!config.has_semantics_version()) return kCurrentSemantics;
  const uint32_t version = config.semantics_version();
  EMBLEM_REQUIRE(version >= kOldestSemantics && version <= kCurrentSemantics,
                 "semantics_version is ", version, ", this program knows ", kOldestSemantics,
                 " to ", kCurrentSemantics,
                 version > kCurrentSemantics ? "; use a newer Emblem" : "");
  return version;
}

// The rows of tables are part of a trained model.
void adopt_table_rows(const config::TrainConfig& stored, const std::string& checkpoint,
                      config::TrainConfig* config) {
  EMBLEM_REQUIRE(!config->has_divide_tables() || config->divide_tables() == stored.divide_tables(),
                 checkpoint, " was trained with divide_tables ", stored.divide_tables(), ", not ",
                 config->divide_tables(), "; give --divide-tables ", stored.divide_tables(),
                 " or none");
  if (stored.has_divide_tables()) config->set_divide_tables(stored.divide_tables());
}

}  // namespace

Semantics semantics_of(const config::PipelineConfig& config) {
  if (version_of(config) == 1) {
    return {.fg_mode = config::FG_NORMAL,
            .fg_hash = false,
            .default_after_normalizer = false,
            .torcheasyrec_dcn = false,
            .strict_checks = false};
  }
  return {.fg_mode = fg_mode_of(config.data_config())};
}

void record_semantics(config::PipelineConfig* config) {
  const uint32_t version = version_of(*config);
  config->set_semantics_version(version);
  if (version == 1) return;
  config::DataConfig* data = config->mutable_data_config();
  data->set_fg_mode(fg_mode_of(*data));
  data->clear_fg_encoded();
}

void adopt_semantics(const config::PipelineConfig& stored, const std::string& checkpoint,
                     config::PipelineConfig* config) {
  const uint32_t version = version_of(stored);
  EMBLEM_REQUIRE(!config->has_semantics_version() || config->semantics_version() == version,
                 checkpoint, " was trained with semantics_version ", version, ", not ",
                 config->semantics_version(), "; remove semantics_version from the pipeline");
  config->set_semantics_version(version);
  adopt_table_rows(stored.train_config(), checkpoint, config->mutable_train_config());
  *config->mutable_data_config()->mutable_column_types() = stored.data_config().column_types();
  const config::FgMode trained = semantics_of(stored).fg_mode;
  const config::FgMode asked = semantics_of(*config).fg_mode;
  EMBLEM_REQUIRE(trained == asked, checkpoint, " was trained with fg_mode ",
                 config::FgMode_Name(trained), ", but the pipeline has ",
                 config::FgMode_Name(asked),
                 "; set data_config { fg_mode: ", config::FgMode_Name(trained), " }");
}

}  // namespace emblem
