"""The ranking and matching pipelines that are timed, as text that Emblem reads and torch_rank.py builds its models from. Features and layers
are those of TorchEasyRec's benchmark: Taobao's 16 ids with or without a click history, and Criteo's 13 numbers and 26 ids."""

from criteo import FL15_ROWS

TAOBAO = {"user_id": 1141730, "cms_segid": 98, "cms_group_id": 14, "final_gender_code": 3, "age_level": 8, "pvalue_level": 5,
          "shopping_level": 5, "occupation": 3, "new_user_class_level": 6, "pid": 2, "adgroup_id": 846812, "cate_id": 12961,
          "campaign_id": 423438, "customer": 255877, "brand": 461498, "price": 101}
HISTORY = ("adgroup_id", "cate_id", "brand")

TRAIN = """train_config {
  sparse_optimizer { adagrad_optimizer { lr: 0.001 } }
  dense_optimizer { adam_optimizer { lr: 0.001 } }
  num_steps: 1
}
data_config { dataset_type: CsvDataset with_header: true fg_mode: FG_NONE batch_size: %d
  %s }
"""
TWO_LABELS, ONE_LABEL = 'label_fields: "clk" label_fields: "buy"', 'label_fields: "label"'


def names(features):
    return "[" + ", ".join(f'"{name}"' for name in features) + "]"


def ids(sizes, dim, divide):
    return "".join(f'feature_configs {{ id_feature {{ feature_name: "{name}" num_buckets: {max(2, rows // divide)} '
                   f"embedding_dim: {dim} value_dim: 1 }} }}\n" for name, rows in sizes.items())


def tower(name, label, more=""):
    return (f'task_towers {{ tower_name: "{name}" label_name: "{label}" mlp {{ hidden_units: [256, 128, 64] }} '
            f"losses {{ binary_cross_entropy {{}} }} metrics {{ auc {{}} }} {more} }}")


MMOE = "mmoe { expert_mlp { hidden_units: [512, 256, 128] } num_expert: 6 %s %s }" % (tower("ctr", "clk"), tower("cvr", "buy"))
EXTRACTION = ('extraction_networks { network_name: "%s" expert_num_per_task: 2 share_num: 1 task_expert_net { hidden_units: [%s] } '
              "share_expert_net { hidden_units: [%s] } }")
PLE = "ple { %s %s %s %s }" % (EXTRACTION % ("layer1", "1024, 512, 256", "1024, 512, 256"),
                               EXTRACTION % ("layer2", "256, 128, 64", "256, 128, 64"), tower("ctr", "clk"), tower("cvr", "buy"))
DBMTL = "dbmtl { bottom_mlp { hidden_units: [512] } %s %s }" % (
    tower("ctr", "clk"), tower("cvr", "buy", 'relation_tower_names: "ctr" relation_mlp { hidden_units: [64] }'))


def history(length, divide):
    features = "".join(f'  features {{ id_feature {{ feature_name: "{name}" num_buckets: {max(2, TAOBAO[name] // divide)} '
                       f"embedding_dim: 16 }} }}\n" for name in HISTORY)
    return f'feature_configs {{ sequence_feature {{ sequence_name: "past" sequence_length: {length} sequence_delim: "|"\n{features}}} }}\n'


def taobao(model, length, batch, divide):
    """A multi-task model; length 0 is without history."""
    nested = ""
    if length:
        nested = (f'    sequence_groups {{ group_name: "past" feature_names: {names([*HISTORY, *("past__" + name for name in HISTORY)])} }}\n'
                  "    sequence_encoders { din_encoder { attn_mlp { hidden_units: [32, 8] } } }\n")
    return (TRAIN % (batch, TWO_LABELS) + ids(TAOBAO, 16, divide) + (history(length, divide) if length else "")
            + f'model_config {{\n  feature_groups {{ group_name: "all" feature_names: {names(TAOBAO)}\n{nested}  }}\n  {model}\n}}\n')


def din(length, batch, divide):
    """MultiTowerDIN, of TorchEasyRec's example."""
    members = names([*HISTORY, *("past__" + name for name in HISTORY)])
    model = ('multi_tower_din { towers { input: "deep" mlp { hidden_units: [512, 256, 128] } } '
             'din_towers { input: "seq" attn_mlp { hidden_units: [256, 64] } } final { hidden_units: [64] } }')
    return (TRAIN % (batch, ONE_LABEL) + ids(TAOBAO, 16, divide) + history(length, divide)
            + f'model_config {{\n  feature_groups {{ group_name: "deep" feature_names: {names(TAOBAO)} }}\n'
            f'  feature_groups {{ group_name: "seq" group_type: SEQUENCE feature_names: {members} }}\n  {model}\n'
            "  losses { binary_cross_entropy {} }\n  metrics { auc {} }\n}\n")


def multi_tower(batch, divide):
    """Users and items in towers of their own."""
    user, item = names(list(TAOBAO)[:9]), names(list(TAOBAO)[9:])
    towers = "".join('towers { input: "%s" mlp { hidden_units: [512, 256, 128] } } ' % group for group in ("user", "item"))
    return (TRAIN % (batch, ONE_LABEL) + ids(TAOBAO, 16, divide)
            + f'model_config {{\n  feature_groups {{ group_name: "user" feature_names: {user} }}\n'
            f'  feature_groups {{ group_name: "item" feature_names: {item} }}\n'
            f"  multi_tower {{ {towers} final {{ hidden_units: [256, 128, 64] }} }}\n"
            "  losses { binary_cross_entropy {} }\n  metrics { auc {} }\n}\n")


def dssm(batch, divide):
    """Towers of TorchEasyRec's example without the history; the items of a batch are its negatives."""
    tower = '%s_tower { input: "%s" mlp { hidden_units: [512, 256] } }'
    return (TRAIN % (batch, ONE_LABEL) + ids(TAOBAO, 16, divide)
            + f'model_config {{\n  feature_groups {{ group_name: "user" feature_names: {names(list(TAOBAO)[:10])} }}\n'
            f'  feature_groups {{ group_name: "item" feature_names: {names(list(TAOBAO)[10:])} }}\n'
            f"  dssm {{ {tower % ('user', 'user')} {tower % ('item', 'item')} output_dim: 128 similarity: COSINE temperature: 0.05\n"
            "    in_batch_negative: true }\n  losses { softmax_cross_entropy {} }\n  metrics { recall_at_k { top_k: 1 } }\n}\n")


def pepnet(batch, divide):
    groups = {"all": list(TAOBAO), "domain": ["pid"], "uia": ["user_id", "final_gender_code", "age_level"]}
    text = TRAIN % (batch, TWO_LABELS) + ids(TAOBAO, 16, divide) + "model_config {\n"
    for group, members in groups.items():
        text += f'  feature_groups {{ group_name: "{group}" feature_names: {names(members)} }}\n'
    return text + "  pepnet { epnet_hidden_unit: 64 ppnet_hidden_units: [512, 256, 128] %s %s }\n}\n" % (
        tower("ctr", "clk"), tower("cvr", "buy"))


def criteo(groups, model, batch, divide, losses="  losses { binary_cross_entropy {} }\n", dim=16):
    numbers = [f"I{i}" for i in range(1, 14)]
    sizes = {f"C{i + 1}": rows for i, rows in enumerate(FL15_ROWS)}
    text = TRAIN % (batch, ONE_LABEL)
    text += "".join(f'feature_configs {{ raw_feature {{ feature_name: "{name}" }} }}\n' for name in numbers) + ids(sizes, dim, divide)
    members = {"deep": [*numbers, *sizes], "dense": numbers, "sparse": list(sizes), "wide": list(sizes), "fm": list(sizes)}
    for group in groups:
        kind = "group_type: WIDE" if group == "wide" else ""
        text = text + ("" if "model_config" in text else "model_config {\n")
        text += f'  feature_groups {{ group_name: "{group}" feature_names: {names(members[group])} {kind} }}\n'
    return text + f"  {model}\n{losses}  metrics {{ auc {{}} }}\n}}\n"


WUKONG_LAYER = "wukong_layers { lcb_feature_num: 16 fmb_feature_num: 16 compressed_feature_num: 24 feature_num_mlp { hidden_units: 512 } }"


def pipelines(batch=8192, divide=1):
    """Pipeline text by name."""
    out = {}
    for name, model in (("mmoe", MMOE), ("ple", PLE), ("dbmtl", DBMTL)):
        for length in (0, 50, 200):
            out[f"{name}_{length}" if length else name] = taobao(model, length, batch, divide)
    for length in (50, 200):
        out[f"din_{length}"] = din(length, batch, divide)
    out["multi_tower"] = multi_tower(batch, divide)
    out["dssm"] = dssm(batch, divide)
    out["pepnet"] = pepnet(batch, divide)
    deep, final = "deep { hidden_units: [512, 256, 128] }", "final { hidden_units: [64, 32] }"
    out["deepfm"] = criteo(["wide", "fm", "deep"], "deepfm { %s %s }" % (deep, final), batch, divide)
    wide = "deep { hidden_units: [1024, 1024, 1024] %s }"
    out["deepfm_bn"] = criteo(["wide", "fm", "deep"], "deepfm { %s }" % wide % "use_bn: true dropout_ratio: 0.1", batch, divide)
    out["dcn_v2"] = criteo(["deep"], "dcn_v2 { cross { cross_num: 3 low_rank: 64 } %s }" % wide % "", batch, divide)
    out["xdeepfm"] = criteo(["wide", "deep"], "xdeepfm { cin { cin_layer_size: [32, 32] } %s %s }" % (deep, final), batch, divide)
    out["masknet"] = criteo(
        ["deep"], "mask_net { mask_net_module { n_mask_blocks: 3 mask_block { reduction_ratio: 3 hidden_dim: 512 } "
        "top_mlp { hidden_units: [256, 128, 64] } } }", batch, divide)
    out["wukong"] = criteo(
        ["dense", "sparse"], "wukong { dense_mlp { hidden_units: [512, 256, 16] } %s %s final { hidden_units: [512, 64] } }" % (
            WUKONG_LAYER, WUKONG_LAYER), batch, divide)
    out["rocket_launching"] = criteo(
        ["deep"], "rocket_launching { booster_mlp { hidden_units: [1024, 512, 128, 64, 32] } light_mlp { hidden_units: [96, 64, 32] } "
        "feature_based_distillation: true feature_distillation_function: COSINE }", batch, divide,
        losses="  num_class: 2\n  losses { softmax_cross_entropy {} }\n")
    return out
