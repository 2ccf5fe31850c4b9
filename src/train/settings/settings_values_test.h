// train/settings/settings_values_test.h - values of fields for settings_walk_test.h.
#pragma once

#include <set>
#include <string>
#include <utility>

namespace emblem {

inline const char* const kSettingsTexts[] = {"nonsense", "", "clk", "user", "item:color", "7"};

// Where data, models and results are: given by the test itself.
inline const std::set<std::string> kSettingsPlaces = {"PipelineConfig.train_input_path",
                                                      "PipelineConfig.eval_input_path",
                                                      "PipelineConfig.model_dir"};

// Valid values, tried first. "*" stands for all messages.
inline const std::pair<const char*, const char*> kSettingsValues[] = {
    {"*.combiner", "'max'"},
    {"*.data_type", "'FP16'"},
    {"*.grouping_key", "'color'"},
    {"*.init_fn", "'nn.init.constant_,val=0.1'"},
    {"*.normalizer", "'method=log1p'"},
    {"*.pooling", "'mean'"},
    {"*.wide_init_fn", "'nn.init.constant_,val=0.1'"},
    {"DynamicEmbInitializerArgs.mode", "'truncated_normal'"},
    {"DynamicEmbInitializerArgs.mode", "'constant'"},
    {"DynamicEmbedding.score_strategy", "'NO_EVICTION'"},
    {"GradClipping.clipping_type", "'value'"},
    {"JRCLoss.session_name", "'color'"},
    {"LambdaRankLoss.session_name", "'color'"},
    {"MulticlassAUC.average", "'weighted'"},
    {"NormalizedEntropy.eta", "0.49"},
    {"OverlapFeature.method", "'title_common_ratio'"},
    {"PartOptimizer.regex_pattern", "'.*bias'"},
    {"PoolingEncoder.pooling_type", "'sum'"},
    {"DataConfig.filters", "'count > 3'"},
    {"TrainConfig.mixed_precision", "'FP16'"},
    {"TrainConfig.mixed_precision", "'BF16'"},
    {"DataConfig.na_strings", "'red'"},
};

// What a message that is added begins as: so that each of its fields matters.
inline const std::pair<const char*, const char*> kSettingsStarts[] = {
    // learning rates, over 8 steps
    {"ExponentialDecayLR", "decay_size: 2 warmup_size: 1 warmup_learning_rate: 0.001"},
    {"ManualStepLR", "schedule_sizes: [2, 4] learning_rates: [0.02, 0.01]"},
    {"CosineAnnealingLR", "T_max: 4 warmup_size: 2 warmup_learning_rate: 0.001"},
    {"CosineAnnealingWarmRestartsLR", "T_0: 2 warmup_size: 2 warmup_learning_rate: 0.001"},
    {"WarmupPolynomialDecayLR", "warmup_size: 2 decay_start: 3 decay_size: 3"},
    // optimizers
    {"FusedAdadeltaOptimizer", "gradient_clipping: true max_gradient: 0.001"},
    {"FusedAdagradOptimizer", "gradient_clipping: true max_gradient: 0.001"},
    {"FusedAdamOptimizer", "gradient_clipping: true max_gradient: 0.001"},
    {"FusedPartialRowWiseAdamOptimizer", "gradient_clipping: true max_gradient: 0.001"},
    {"FusedRMSpropOptimizer", "gradient_clipping: true max_gradient: 0.001"},
    {"FusedRowWiseAdagradOptimizer",
     "gradient_clipping: true max_gradient: 0.001 weight_decay: 0.1 weight_decay_mode: L2"},
    {"FusedSGDOptimizer", "gradient_clipping: true max_gradient: 0.001"},
    {"PartOptimizer",
     "regex_pattern: '.*' sgd_optimizer { lr: 0.1 } exponential_decay_learning_rate { decay_size: "
     "2 }"},
    // metrics
    {"GroupedXAUC", "grouping_key: 'user'"},
    {"NDCGAtK", "grouping_key: 'user'"},
    {"TrainMetricConfig", "auc {} decay_step: 2"},
    // columns
    {"Field", "input_name: 'item' input_type: STRING"},
    {"TrainedColumn", "input_name: 'item' input_type: STRING kind: 'text' spelling: 'text'"},
    // features
    {"AutoDisEmbedding", "num_channels: 3"},
    {"DynamicEmbedding", "max_capacity: 100"},
    {"DynamicEmbFrequencyAdmissionStrategy", "threshold: 3"},
    {"DynamicEmbInitializerArgs", "mode: 'normal' std_dev: 0.1"},
    {"ZeroCollisionHash", "zch_size: 20"},
};

}  // namespace emblem
