#include "api/compute.h"

#include "config/load/override.h"
#include "model/model.h"

namespace emblem {

Workers open_workers(const std::string& device, int threads) {
  EMBLEM_REQUIRE(device == "cpu" || device == "cuda", "device is \"", device,
                 "\"; expected cpu or cuda");
  EMBLEM_REQUIRE(threads >= 0 && threads <= 1024, "threads is ", threads, "; expected 0 to 1024");
  return make_workers(device == "cuda" ? Device::kCuda : Device::kCpu, threads);
}

void set_precision(const std::string& precision, const std::string& device,
                   config::PipelineConfig* config) {
  if (precision.empty()) return;
  const bool is_known = precision == "fp32" || precision == "bf16" || precision == "fp16";
  EMBLEM_REQUIRE(is_known, "precision is \"", precision, "\"; expected fp32, bf16 or fp16");
  EMBLEM_REQUIRE(precision != "fp16" || device == "cuda",
                 "precision fp16 needs the device cuda; a CPU computes in fp32 or bf16");
  apply_override(
      cat("train_config.mixed_precision=", mixed_precision_of(parse_dtype(precision).value())),
      config);
}

}  // namespace emblem
