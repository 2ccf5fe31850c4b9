"""A small pipeline for every model."""

BASE = """
train_input_path: "{data}/train"
eval_input_path: "{data}/test"
model_dir: "{model_dir}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.05 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.002 }} }}
  num_epochs: 1
  save_checkpoints_steps: 0
}}
data_config {{ dataset_type: CriteoTsvDataset fg_mode: FG_DAG batch_size: 256 num_workers: 1 }}
feature_configs {{ raw_feature {{ feature_name: "I{{1..13}}" normalizer: "method=log1p" }} }}
feature_configs {{ id_feature {{ feature_name: "C{{1..26}}" embedding_dim: 8 hash_bucket_size: 3000 }} }}
model_config {{
{groups}
{model}
  metrics {{ auc {{ thresholds: 0 }} }}
}}
"""

WIDE = '  feature_groups { group_name: "wide" group_type: WIDE feature_names: "C{1..26}" feature_names: "I{1..13}" }'
DEEP = '  feature_groups { group_name: "deep" feature_names: "I{1..13}" feature_names: "C{1..26}" }'
PAIRS = '  feature_groups { group_name: "fm" feature_names: "C{1..26}" }'
DLRM = ('  feature_groups { group_name: "dense" feature_names: "I{1..13}" }\n'
        '  feature_groups { group_name: "sparse" feature_names: "C{1..26}" }')
MLP = "hidden_units: [32, 16]"

MODELS = {
    "lr": (WIDE, "lr {}"),
    "fm": (WIDE + "\n" + PAIRS, "fm {}"),
    "dnn": (DEEP, f"dnn {{ deep {{ {MLP} use_ln: true }} }}"),
    "wide_and_deep": (WIDE + "\n" + DEEP, f"wide_and_deep {{ deep {{ {MLP} }} final {{ hidden_units: [8] }} }}"),
    "deepfm": (WIDE + "\n" + DEEP, f"deepfm {{ deep {{ {MLP} }} }}"),
    "dcn_v1": (DEEP, f"dcn_v1 {{ cross {{ cross_num: 2 }} deep {{ {MLP} }} }}"),
    "dcn_v2": (DEEP, f"dcn_v2 {{ cross {{ cross_num: 2 low_rank: 8 }} deep {{ {MLP} use_bn: true }} }}"),
    "dlrm": (DLRM, f"dlrm {{ dense_mlp {{ hidden_units: [16, 8] }} final {{ {MLP} }} }}"),
}


def config_for(name, data, model_dir):
    groups, model = MODELS[name]
    return BASE.format(data=data, model_dir=model_dir, groups=groups, model="  " + model)
