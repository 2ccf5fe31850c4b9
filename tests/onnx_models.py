"""A small pipeline for every model, over one data set with all that ONNX inputs can be, and its rows as these inputs."""

import csv
import random
import re

import numpy as np

USERS, TAGS, CATES, LONGEST = 60, 40, 12, 6

BASE = """
train_input_path: "{folder}/train.csv"
model_dir: "{model}"
train_config {{
  sparse_optimizer {{ adagrad_optimizer {{ lr: 0.2 }} }}
  dense_optimizer {{ adam_optimizer {{ lr: 0.02 }} }}
  num_epochs: 1 save_checkpoints_steps: 0 seed: 5
}}
data_config {{ dataset_type: CsvDataset with_header: true label_fields: [{labels}] fg_mode: FG_DAG batch_size: 64 num_workers: 1 }}
feature_configs {{ id_feature {{ feature_name: "user" num_buckets: 60 value_dim: 1 embedding_dim: 8 }} }}
feature_configs {{ id_feature {{ feature_name: "item" embedding_name: "goods" embedding_dim: 8
  dynamicemb {{ max_capacity: 1000 eval_initializer_args {{ mode: "constant" value: 0.05 }} }} }} }}
feature_configs {{ id_feature {{ feature_name: "tags" num_buckets: 40 separator: "|" pooling: "mean" embedding_dim: 8 }} }}
feature_configs {{ id_feature {{ feature_name: "likes" num_buckets: 40 separator: "|" weighted: true pooling: "{pooling}" embedding_dim: 8 }} }}
feature_configs {{ raw_feature {{ feature_name: "price" default_value: "0.25" }} }}
feature_configs {{ raw_feature {{ feature_name: "place" value_dim: 2 separator: "|" default_value: "0|1" }} }}
feature_configs {{ sequence_feature {{ sequence_name: "clicks" sequence_length: 6 sequence_delim: ";"
  features {{ id_feature {{ feature_name: "item" embedding_name: "goods" embedding_dim: 8
    dynamicemb {{ max_capacity: 1000 eval_initializer_args {{ mode: "constant" value: 0.05 }} }} }} }}
  features {{ id_feature {{ feature_name: "cate" num_buckets: 12 embedding_dim: 8 }} }}
  features {{ raw_feature {{ feature_name: "dwell" }} }} }} }}
{features}
model_config {{
{model_config}
}}
"""
ALL = '"user", "item", "tags", "likes", "price", "place"'
DEEP = f'feature_groups {{ group_name: "deep" feature_names: [{ALL}] }}'
WIDE = f'feature_groups {{ group_name: "wide" group_type: WIDE feature_names: [{ALL}] }}'
PAIRS = 'feature_groups { group_name: "fm" feature_names: ["user", "item", "tags"] }'
DENSE_SPARSE = ('feature_groups { group_name: "dense" feature_names: ["price", "place"] }\n'
                'feature_groups { group_name: "sparse" feature_names: ["user", "item", "tags", "likes"] }')
CLICKS = ('feature_groups { group_name: "clicks" group_type: SEQUENCE '
          'feature_names: ["item", "clicks__item", "clicks__cate", "clicks__dwell"] }')
TWO_LABELS = '"clk", "buy"'
TASKS = """
    task_towers { tower_name: "ctr" label_name: "clk" mlp { hidden_units: 8 } losses { binary_cross_entropy {} } metrics { auc {} } }
    task_towers { tower_name: "cvr" label_name: "buy" mlp { hidden_units: 8 } losses { binary_cross_entropy {} } metrics { auc {} } }
"""
AUC = "metrics { auc {} }"
TOWERS = """
feature_groups { group_name: "user" feature_names: ["user", "tags", "price"]
  sequence_groups { group_name: "history" feature_names: ["clicks__item", "clicks__dwell"] }
  sequence_encoders { pooling_encoder { pooling_type: "mean" } } }
feature_groups { group_name: "item" feature_names: ["item", "likes"] }
"""
VECTORS = """output_dim: 8 temperature: 0.5 in_batch_negative: true }
losses { softmax_cross_entropy {} } metrics { recall_at_k { top_k: 1 } }"""


def encoder(text, names):
    """A DNN over the output of a sequence encoder."""
    return (f'feature_groups {{ group_name: "deep" feature_names: ["user", "price"]\n'
            f'  sequence_groups {{ group_name: "history" feature_names: [{names}] }}\n'
            f'  sequence_encoders {{ {text} }} }}\ndnn {{ deep {{ hidden_units: [8] }} }} {AUC}')


ACTIVATIONS = ["ReLU", "Sigmoid", "Tanh", "GELU", "GELU(approximate='tanh')", "SiLU", "LeakyReLU", "LeakyReLU(negative_slope=0.3)",
               "PReLU", "ELU(alpha=0.5)", "SELU", "CELU(alpha=0.5)", "Softplus", "Softplus(beta=2,threshold=1)", "Softsign", "Hardswish",
               "Hardsigmoid", "Hardtanh(min_val=-0.2,max_val=0.3)", "ReLU6", "Mish", "LogSigmoid", "Identity"]


def activation_towers():
    towers = " ".join(f'towers {{ input: "deep" mlp {{ hidden_units: 4 activation: "nn.{each}" }} }}' for each in ACTIVATIONS)
    return f"{DEEP} multi_tower {{ {towers} final {{ hidden_units: 4 }} }} {AUC}"


def layers(options):
    return f'{DEEP}\ndnn {{ deep {{ hidden_units: [12, 8] {options} }} }} {AUC}'


# name -> the model, its labels where they are not the click, more features, how `likes` are pooled
MODELS = {
    "lr": (f"{WIDE} lr {{}} {AUC}",),
    "fm": (f"{WIDE} {PAIRS} fm {{}} {AUC}",),
    "dnn": (layers('activation: "nn.GELU"'), '"clk"', "", "mean"),
    "dnn_bn": (layers('use_bn: true activation: "Dice"'),),
    "dnn_ln": (layers('use_ln: true activation: "nn.PReLU" dropout_ratio: 0.2'),),
    "activations": (activation_towers(),),
    "wide_and_deep": (f"{WIDE} {DEEP} wide_and_deep {{ deep {{ hidden_units: 8 }} final {{ hidden_units: 4 }} }} {AUC}",),
    "deepfm": (f"{WIDE} {DEEP} {PAIRS} deepfm {{ deep {{ hidden_units: 8 }} final {{ hidden_units: 4 }} }} {AUC}",),
    "dcn_v1": (f"{DEEP} dcn_v1 {{ cross {{ cross_num: 2 }} deep {{ hidden_units: 8 }} final {{ hidden_units: 4 }} }} {AUC}",),
    "dcn_v2": (f"{DEEP} dcn_v2 {{ backbone {{ hidden_units: 12 }} cross {{ cross_num: 2 low_rank: 4 }} "
               f"deep {{ hidden_units: 8 }} final {{ hidden_units: 4 }} }} {AUC}",),
    "dlrm": (f"{DENSE_SPARSE} dlrm {{ dense_mlp {{ hidden_units: [8] }} final {{ hidden_units: 8 }} }} {AUC}",),
    "xdeepfm": (f'feature_groups {{ group_name: "wide" group_type: WIDE feature_names: ["user", "item", "tags"] }} {DEEP} '
                f"xdeepfm {{ cin {{ cin_layer_size: [4, 3] }} deep {{ hidden_units: 8 }} final {{ hidden_units: 4 }} }} {AUC}",),
    "mask_net": (f"{DEEP} mask_net {{ mask_net_module {{ n_mask_blocks: 2 mask_block {{ reduction_ratio: 1 hidden_dim: 8 }} "
                 f"top_mlp {{ hidden_units: 8 }} use_parallel: true }} }} {AUC}",),
    "wukong": (f"{DENSE_SPARSE} wukong {{ dense_mlp {{ hidden_units: 8 }} wukong_layers {{ lcb_feature_num: 3 fmb_feature_num: 3 "
               f"compressed_feature_num: 2 feature_num_mlp {{ hidden_units: 8 }} }} final {{ hidden_units: 8 }} }} {AUC}",),
    "multi_tower": ('feature_groups { group_name: "a" feature_names: ["user", "price"] }\n'
                    'feature_groups { group_name: "b" feature_names: ["item", "tags"] }\n'
                    'multi_tower { towers { input: "a" mlp { hidden_units: 8 } } towers { input: "b" mlp { hidden_units: 8 } } '
                    f'final {{ hidden_units: 4 }} }} {AUC}',),
    "multi_tower_din": (f"{DEEP} {CLICKS} multi_tower_din {{ towers {{ input: \"deep\" mlp {{ hidden_units: 8 }} }} "
                        f"din_towers {{ input: \"clicks\" attn_mlp {{ hidden_units: 4 }} }} final {{ hidden_units: 4 }} }} {AUC}",),
    "simple_attention": (encoder("simple_attention {}", '"item", "clicks__item"'),),
    "self_attention": (encoder("self_attention_encoder { multihead_attn_dim: 8 num_heads: 2 dropout: 0.1 }", '"clicks__item", "clicks__dwell"'),),
    "windows": (encoder('multi_window_din_encoder { windows_len: [1, 2, 2] attn_mlp { hidden_units: 4 } }',
                        '"item", "clicks__item", "clicks__cate"'),),
    "sum_of_clicks": (encoder('pooling_encoder { pooling_type: "sum" }', '"clicks__item", "clicks__dwell"'),),
    "embedded_numbers": (f'feature_groups {{ group_name: "deep" feature_names: ["user", "tags", "age", "height"] }} '
                         f'variational_dropout {{}} dnn {{ deep {{ hidden_units: 8 }} }} {AUC}', '"clk"',
                         'feature_configs { raw_feature { feature_name: "age" expression: "user:price" embedding_dim: 4 '
                         'autodis { num_channels: 3 } } }\n'
                         'feature_configs { raw_feature { feature_name: "height" expression: "user:price" embedding_dim: 4 mlp {} } }'),
    "ensemble": (f"ensemble_size: 2 {DEEP} dnn {{ deep {{ hidden_units: 8 }} }} {AUC}",),
    "numbers": (f"{DEEP} dnn {{ deep {{ hidden_units: 8 }} }} losses {{ l2_loss {{}} }} metrics {{ mean_squared_error {{}} }}",),
    "classes": (f"num_class: 2 {DEEP} dnn {{ deep {{ hidden_units: 8 }} }} losses {{ softmax_cross_entropy {{}} }} {AUC}",),
    "rocket_launching": (f"num_class: 2 {DEEP} rocket_launching {{ share_mlp {{ hidden_units: 8 }} booster_mlp {{ hidden_units: [8, 8] }} "
                         f"light_mlp {{ hidden_units: 8 }} }} losses {{ softmax_cross_entropy {{}} }} {AUC}",),
    "mmoe": (f"{DEEP} mmoe {{ expert_mlp {{ hidden_units: 8 }} num_expert: 3 gate_mlp {{ hidden_units: 4 }} {TASKS} }}", TWO_LABELS),
    "ple": (f"{DEEP} ple {{ extraction_networks {{ network_name: \"one\" expert_num_per_task: 2 share_num: 2 "
            f"task_expert_net {{ hidden_units: 8 }} share_expert_net {{ hidden_units: 8 }} }} {TASKS} }}", TWO_LABELS),
    "dbmtl": (f"{DEEP} dbmtl {{ bottom_mlp {{ hidden_units: 8 }} {TASKS} }}", TWO_LABELS),
    "pepnet": (f'feature_groups {{ group_name: "all" feature_names: [{ALL}] }} feature_groups {{ group_name: "domain" feature_names: "user" }} '
               f'feature_groups {{ group_name: "uia" feature_names: ["user", "item"] }} '
               f"pepnet {{ epnet_hidden_unit: 8 ppnet_hidden_units: [8, 4] {TASKS} }}", TWO_LABELS),
    "pepnet_domains": (f'feature_groups {{ group_name: "all" feature_names: [{ALL}] }} '
                       f'feature_groups {{ group_name: "domain" feature_names: "user" }} '
                       f"pepnet {{ epnet_hidden_unit: 8 ppnet_hidden_units: [8] domain_input_name: \"domain\" "
                       f"task_domain_num: 2 {TASKS} }}", '"clk", "buy", "domain"'),
    "dssm": (f"{TOWERS} dssm {{ user_tower {{ input: \"user\" mlp {{ hidden_units: 8 }} }} "
             f"item_tower {{ input: \"item\" mlp {{ hidden_units: 8 }} }} similarity: COSINE {VECTORS}",),
    "dssm_v2": (f"{TOWERS} dssm_v2 {{ user_tower {{ input: \"user\" mlp {{ hidden_units: 8 }} }} "
                f"item_tower {{ input: \"item\" mlp {{ hidden_units: 8 }} }} {VECTORS}",),
    "dat": (f'{TOWERS} feature_groups {{ group_name: "user_twin" feature_names: "user_twin" }} '
            f'feature_groups {{ group_name: "item_twin" feature_names: "item_twin" }} '
            f"dat {{ user_tower {{ input: \"user\" augment_input: \"user_twin\" mlp {{ hidden_units: 8 }} }} "
            f"item_tower {{ input: \"item\" augment_input: \"item_twin\" mlp {{ hidden_units: 8 }} }} {VECTORS}", '"clk"',
            'feature_configs { id_feature { feature_name: "user_twin" expression: "user:user" num_buckets: 60 embedding_dim: 8 } }\n'
            'feature_configs { id_feature { feature_name: "item_twin" expression: "item:item" embedding_dim: 8 '
            'dynamicemb { max_capacity: 1000 } } }'),
    "mind": ('feature_groups { group_name: "user" feature_names: ["user", "price"] }\n'
             'feature_groups { group_name: "history" group_type: SEQUENCE feature_names: ["clicks__item", "clicks__cate"] }\n'
             'feature_groups { group_name: "item" feature_names: ["item", "likes"] }\n'
             'mind { user_tower { input: "user" history_input: "history" user_mlp { hidden_units: 8 } '
             'hist_seq_mlp { hidden_units: 8 } capsule_config { max_k: 3 max_seq_len: 5 high_dim: 8 num_iters: 3 routing_logits_scale: 2 } '
             'concat_mlp { hidden_units: 8 } } item_tower { input: "item" mlp { hidden_units: 8 } } ' + VECTORS,),
    "tdm": (f'num_class: 2 {CLICKS} feature_groups {{ group_name: "user" feature_names: ["user", "price"] }} '
            f'tdm {{ multiwindow_din {{ windows_len: [1, 2, 3] attn_mlp {{ hidden_units: 4 activation: "nn.PReLU" }} }} '
            f'final {{ hidden_units: 8 use_bn: true }} }} losses {{ softmax_cross_entropy {{}} }} {AUC}',),
}


# Models over values that are encoded already: keys are integers, and a history may have no elements.
ENCODED = ("multi_tower_din", "simple_attention", "self_attention", "windows", "sum_of_clicks", "mind", "tdm")


def is_encoded(name):
    return name.endswith("_encoded")


def pipeline_of(name, folder, model):
    defaults = (None, '"clk"', "", "sum")
    known = MODELS[name.removesuffix("_encoded")]
    text, labels, features, pooling = known + defaults[len(known):]
    made = BASE.format(folder=folder, model=model, labels=labels, features=features, pooling=pooling, model_config=text)
    if not is_encoded(name):
        return made
    made = made.replace("FG_DAG", 'FG_NONE fg_encoded_multival_sep: "|"').replace(", \"likes\"", "")
    made = re.sub(r'feature_configs { id_feature { feature_name: "likes".*\n', "", made)
    return re.sub(r'(?<!fg_encoded_)default_value', "fg_encoded_default_value", made)


COLUMNS = ["clk", "buy", "domain", "user", "item", "tags", "likes", "price", "place", "clicks__item", "clicks__cate", "clicks__dwell"]


def make_rows(count, seed, items):
    """Rows as texts: values are missing, bags and histories are empty or full."""
    chance = random.Random(seed)
    for _ in range(count):
        def some(make, most, separator):
            return separator.join(make() for _ in range(chance.randrange(most + 1)))
        length = chance.choice([0, 1, 3, LONGEST])
        row = {
            "user": str(chance.randrange(USERS)) if chance.random() < 0.9 else "",
            "item": str(chance.randrange(items) * 7919 - 1000) if chance.random() < 0.9 else "",
            "tags": some(lambda: str(chance.randrange(TAGS)), 4, "|"),
            "likes": some(lambda: f"{chance.randrange(TAGS)}:{chance.randrange(-8, 9) / 8}", 3, "|"),
            "price": f"{chance.gauss(0, 1):.3f}" if chance.random() < 0.9 else "",
            "place": f"{chance.random():.3f}|{chance.random():.3f}" if chance.random() < 0.9 else "",
            "clicks__item": ";".join(str(chance.randrange(items) * 7919 - 1000) for _ in range(length)),
            "clicks__cate": ";".join(str(chance.randrange(CATES)) for _ in range(length)),
            "clicks__dwell": ";".join(f"{chance.random():.3f}" for _ in range(length)),
        }
        row["domain"] = str(chance.randrange(2))
        row["clk"] = str(int(len(row["tags"]) % 3 == 0 or chance.random() < 0.3))
        row["buy"] = str(int(row["clk"] == "1" and chance.random() < 0.5))
        yield row


def write_rows(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def key_of(text):
    """The key of a text in a dynamic table: MurmurHash64A with the seed of TorchEasyRec, modulo 2^63 - 1."""
    mask, multiplier, data = (1 << 64) - 1, 0xc6a4a7935bd1e995, text.encode()
    key = 0xc70f6907 ^ (len(data) * multiplier & mask)
    for begin in range(0, len(data) - len(data) % 8, 8):
        part = int.from_bytes(data[begin:begin + 8], "little") * multiplier & mask
        part = (part ^ part >> 47) * multiplier & mask
        key = (key ^ part) * multiplier & mask
    rest = data[len(data) - len(data) % 8:]
    if rest:
        key = (key ^ int.from_bytes(rest, "little")) * multiplier & mask
    key = (key ^ key >> 47) * multiplier & mask
    return (key ^ key >> 47) % ((1 << 63) - 1)


def padded(lists, value, dtype, least=1):
    length = max([least, *map(len, lists)])
    return np.array([[*each, *[value] * (length - len(each))] for each in lists], dtype)


def split(columns, column, separator, read):
    return [[read(text) for text in row.split(separator) if text] for row in columns[column]]


def inputs_of(rows, are_encoded=False):
    """All inputs that the features can be, with keys of dynamic tables as they are."""
    item_key = int if are_encoded else key_of
    columns = {column: [row[column] for row in rows] for column in COLUMNS}
    likes = [[text.split(":") for text in each.split("|") if text] for each in columns["likes"]]
    items = padded(split(columns, "item", "|", item_key), -1, np.int64)
    if not are_encoded:  # an empty history has one element, of default values
        for column in ("clicks__item", "clicks__cate", "clicks__dwell"):
            columns[column] = [text or "0" for text in columns[column]]
    clicks = split(columns, "clicks__item", ";", item_key)
    users = np.array([[int(text or -1)] for text in columns["user"]], np.int64)
    prices = np.array([[float(text or 0.25)] for text in columns["price"]], np.float32)
    plain = np.array([[float(text or 0)] for text in columns["price"]], np.float32)
    dwell = padded(split(columns, "clicks__dwell", ";", float), 0, np.float32)
    return {
        "user": users, "user_twin": users,
        "item": items, "item_twin": items,
        "tags": padded(split(columns, "tags", "|", int), -1, np.int64),
        "likes": padded([[int(key) for key, _ in each] for each in likes], -1, np.int64),
        "likes.weights": padded([[float(weight) for _, weight in each] for each in likes], 0, np.float32),
        "price": prices, "age": plain, "height": plain,
        "place": np.array([[float(part) for part in (text or "0|1").split("|")] for text in columns["place"]], np.float32),
        "clicks.lengths": np.array([[len(each)] for each in clicks], np.int64),
        "clicks__item": padded(clicks, -1, np.int64),
        "clicks__cate": padded(split(columns, "clicks__cate", ";", int), -1, np.int64),
        "clicks__dwell": dwell[:, :, None],
    }
