#include "train/state/onnx_export.h"

#include "config/feature/heads.h"
#include "core/files/atomic_folder.h"
#include "data/source/uri.h"
#include "emblem/error.h"
#include "model/onnx/onnx_export.h"
#include "train/predict/prediction_file.h"
#include "train/state/restored.h"

namespace emblem {

ExportedOnnx export_onnx(const Context& context, const std::string& checkpoint,
                         const OnnxExport& options) {
  EMBLEM_REQUIRE(!is_object_uri(options.folder), shown_uri(options.folder),
                 " is an address; a model of ONNX is written to a folder of this machine");
  AtomicFolder folder(options.folder, "the ONNX model");
  RestoredModel restored(context, checkpoint, "", {}, World::alone(), RestoredFor::kPrediction);
  const FeatureLayout layout = restored.layout();
  const OnnxOptions chosen{
      .outputs = choose_outputs(heads_of(restored.config(), layout), options.outputs),
      .has_rows_beside = options.has_rows_beside,
      .step = restored.step()};
  const uint64_t bytes =
      write_onnx(restored.model(), restored.config(), layout, chosen, folder.path());
  folder.commit();
  return {restored.step(), bytes};
}

}  // namespace emblem
