"""The pipelines whose values are written: text of the parts they are put together from."""

TRAIN = """train_config {
  sparse_optimizer { %s }
  dense_optimizer { %s }
  num_steps: 20
}
"""
ADAGRAD, SGD = "adagrad_optimizer { lr: 0.05 }", "sgd_optimizer { lr: 0.1 }"
ROW_WISE = "rowwise_adagrad_optimizer { lr: 0.05 }"
DENSE_SGD = "sgd_optimizer { lr: 0.1 momentum: 0 }"
DENSE_ADAM, DENSE_ADAGRAD = "adam_optimizer { lr: 0.01 }", "adagrad_optimizer { lr: 0.05 }"

DATA = """data_config {
  dataset_type: CsvDataset
  with_header: true
  fg_mode: FG_NONE
  batch_size: 16
%s}
"""
FLAT = """feature_configs { raw_feature { feature_name: "size" } }
feature_configs { raw_feature { feature_name: "place" value_dim: 2 } }
feature_configs { id_feature { feature_name: "user" num_buckets: 12 embedding_dim: 4 value_dim: 1 } }
feature_configs { id_feature { feature_name: "tags" num_buckets: 9 embedding_dim: 4 } }
feature_configs { id_feature { feature_name: "words" num_buckets: 8 embedding_dim: 4 pooling: "mean" } }
"""
ITEM = """feature_configs { id_feature { feature_name: "item" num_buckets: 7 embedding_dim: 4 value_dim: 1 } }
feature_configs { id_feature { feature_name: "shop" num_buckets: 5 embedding_dim: 4 value_dim: 1 } }
"""
HISTORY = """feature_configs { sequence_feature {
  sequence_name: "past" sequence_length: 5 sequence_delim: "|"
  features { id_feature { feature_name: "item" num_buckets: 7 embedding_dim: 4 } }
  features { id_feature { feature_name: "shop" num_buckets: 5 embedding_dim: 4 } }
  features { raw_feature { feature_name: "price" } }
} }
"""
DEEP = """  feature_groups { group_name: "deep" feature_names: ["size", "place", "user", "tags", "words"] }
"""
WIDE = """  feature_groups { group_name: "wide" feature_names: ["user", "tags", "words"] group_type: WIDE }
"""
DENSE_AND_SPARSE = """  feature_groups { group_name: "dense" feature_names: ["size", "place"] }
  feature_groups { group_name: "sparse" feature_names: ["user", "tags", "words"] }
"""
BINARY = "  losses { binary_cross_entropy {} }\n  metrics { auc {} }\n"


def labels(*names, weights=()):
    return "".join(f'  label_fields: "{name}"\n' for name in names) + "".join(
        f'  sample_weight_fields: "{name}"\n' for name in weights)


def pipeline(groups, model, sparse=ADAGRAD, dense=DENSE_ADAM, features=FLAT, data=labels("label"), losses=BINARY):
    return (TRAIN % (sparse, dense) + DATA % data + features + "model_config {\n" + groups + "  " + model.strip() + "\n"
            + losses + "}\n")


def single_task():
    mlp, final = "hidden_units: [8, 4]", "final { hidden_units: [6] }"
    return {
        "dlrm": pipeline(DENSE_AND_SPARSE, "dlrm { dense_mlp { hidden_units: [8, 4] } %s }" % final),
        "dlrm_cross": pipeline(
            DENSE_AND_SPARSE, "dlrm { dense_mlp { hidden_units: [8, 4] } %s arch_with_sparse: false cross { cross_num: 2 low_rank: 3 } }" % final,
            sparse=SGD, dense=DENSE_SGD),
        "dlrm_pairs_alone": pipeline(
            DENSE_AND_SPARSE, "dlrm { dense_mlp { hidden_units: [4] } %s arch_with_sparse: false }" % final, sparse=ROW_WISE),
        "dlrm_without_numbers": pipeline(
            '  feature_groups { group_name: "all" feature_names: ["user", "tags", "words"] }\n', "dlrm { %s }" % final,
            sparse="adam_optimizer { lr: 0.01 }"),
        "deepfm": pipeline(WIDE + DEEP, "deepfm { deep { %s } %s wide_embedding_dim: 3 }" % (mlp, final)),
        "deepfm_sum": pipeline(WIDE + DEEP, "deepfm { deep { %s } }" % mlp, dense=DENSE_ADAGRAD),
        "wide_and_deep": pipeline(WIDE + DEEP, "wide_and_deep { deep { %s } %s wide_embedding_dim: 2 }" % (mlp, final)),
        "wide_and_deep_sum": pipeline(WIDE + DEEP, "wide_and_deep { deep { %s } }" % mlp, sparse=SGD, dense=DENSE_SGD),
        "dcn_v1": pipeline(DEEP, "dcn_v1 { cross { cross_num: 2 } deep { %s } %s }" % (mlp, final)),
        "dcn_v2": pipeline(
            DEEP, "dcn_v2 { backbone { hidden_units: [7] } cross { cross_num: 2 low_rank: 3 } deep { %s } %s }" % (mlp, final)),
        "dcn_v2_without_deep": pipeline(DEEP, "dcn_v2 { cross { cross_num: 3 low_rank: 2 } %s }" % final, dense=DENSE_SGD),
        "layer_norm": pipeline(WIDE + DEEP, "wide_and_deep { deep { hidden_units: [8, 4] use_ln: true activation: 'nn.Tanh' } }"),
        "label_smoothing": pipeline(
            DEEP, "dcn_v1 { cross { cross_num: 1 } deep { %s } %s }" % (mlp, final),
            losses="  losses { binary_cross_entropy { label_smoothing: 0.2 } }\n  metrics { auc {} }\n"),
        "sample_weights": pipeline(WIDE + DEEP, "deepfm { deep { %s } }" % mlp, data=labels("label", weights=["w"])),
        "weighted_ids": pipeline(
            '  feature_groups { group_name: "deep" feature_names: ["scored", "user"] }\n',
            "dcn_v1 { cross { cross_num: 1 } deep { %s } %s }" % (mlp, final),
            features=FLAT + 'feature_configs { id_feature { feature_name: "scored" num_buckets: 6 embedding_dim: 4 weighted: true } }\n'),
    }


TWO = labels("clk", "buy")
NO_LOSSES = ""  # towers have their own


def tower(name, label, mlp="mlp { hidden_units: [6] }", loss="binary_cross_entropy {}", more=""):
    return f'task_towers {{ tower_name: "{name}" label_name: "{label}" {mlp} losses {{ {loss} }} metrics {{ auc {{}} }} {more} }}'


def two_towers(more="", **other):
    return tower("ctr", "clk", **other) + " " + tower("cvr", "buy", more=more, **other)


def without(groups, name):
    return "".join(line for line in groups.splitlines(keepends=True) if f'group_name: "{name}"' not in line)


def loss_text(text, metric="auc {}"):
    return f"  losses {{ {text} }}\n  metrics {{ {metric} }}\n"


def ranking():
    """Single-task models beyond those of single_task."""
    mlp, final = "hidden_units: [8, 4]", "final { hidden_units: [6] }"
    two_groups = """  feature_groups { group_name: "who" feature_names: ["size", "user"] }
  feature_groups { group_name: "what" feature_names: ["place", "tags", "words"] }
"""
    towers = 'towers { input: "who" mlp { %s } } towers { input: "what" mlp { hidden_units: [5] } }' % mlp
    block = "mask_net_module { n_mask_blocks: 2 mask_block { %s hidden_dim: 5 } use_parallel: %s top_mlp { hidden_units: [6] } }"
    layer = "wukong_layers { lcb_feature_num: %d fmb_feature_num: %d compressed_feature_num: 3 feature_num_mlp { hidden_units: [6] } }"
    rocket = ("rocket_launching { %s booster_mlp { hidden_units: [8, 6, 4] } light_mlp { hidden_units: [6, 4] } "
              "feature_based_distillation: %s feature_distillation_function: %s }")
    classes = "  num_class: %d\n" + loss_text("softmax_cross_entropy {}", "accuracy {}")
    return {
        "multi_tower": pipeline(two_groups, "multi_tower { %s %s }" % (towers, final)),
        "mask_net_parallel": pipeline(DEEP, "mask_net { %s }" % (block % ("reduction_ratio: 1.5", "true"))),
        "mask_net_serial": pipeline(DEEP, "mask_net { %s }" % (block % ("reduction_ratio: 0 aggregation_dim: 6", "false"))),
        "wukong": pipeline(DENSE_AND_SPARSE, "wukong { dense_mlp { hidden_units: [8, 4] } %s %s %s }" % (
            layer % (2, 3), layer % (2, 3), final), dense=DENSE_SGD),
        "wukong_without_numbers": pipeline(
            '  feature_groups { group_name: "all" feature_names: ["user", "tags", "words"] }\n', "wukong { %s %s }" % (
                layer % (1, 2), final), dense=DENSE_SGD),
        "xdeepfm": pipeline(WIDE + DEEP, "xdeepfm { cin { cin_layer_size: [4, 3] } deep { %s } %s wide_embedding_dim: 3 }" % (mlp, final)),
        "rocket_launching": pipeline(DEEP, rocket % ("share_mlp { hidden_units: [8] }", "true", "COSINE"),
                                     losses=classes % 2, dense=DENSE_SGD),
        "rocket_launching_euclid": pipeline(DEEP, rocket % ("", "true", "EUCLID"), losses=classes % 3, dense=DENSE_SGD),
        "rocket_launching_logits_alone": pipeline(DEEP, rocket % ("", "false", "COSINE")),
        "rocket_launching_weighted": pipeline(DEEP, rocket % ("", "true", "COSINE"), data=labels("label", weights=["w"])),
        "focal_loss": pipeline(two_groups, "multi_tower { %s %s }" % (towers, final),
                               losses=loss_text("binary_focal_loss { gamma: 1.5 alpha: 0.3 }")),
        "l2_loss": pipeline(two_groups, "multi_tower { %s %s }" % (towers, final),
                            losses=loss_text("l2_loss {}", "mean_squared_error {}")),
        "softmax_smoothing": pipeline(
            two_groups, "multi_tower { %s %s }" % (towers, final),
            losses="  num_class: 4\n" + loss_text("softmax_cross_entropy { label_smoothing: 0.1 }", "accuracy {}")),
        "jrc_loss": pipeline(two_groups, "multi_tower { %s %s }" % (towers, final),
                             losses="  num_class: 2\n" + loss_text('jrc_loss { session_name: "user" alpha: 0.3 }')),
        "prelu": pipeline(DEEP, 'multi_tower { towers { input: "deep" mlp { %s activation: "nn.PReLU" } } %s }' % (mlp, final)),
        "dice": pipeline(DEEP, 'multi_tower { towers { input: "deep" mlp { %s activation: "Dice" } } %s }' % (mlp, final)),
        "batch_norm": pipeline(DEEP, 'multi_tower { towers { input: "deep" mlp { %s use_bn: true } } %s }' % (mlp, final)),
    }


def numeric_embeddings():
    embedded = FLAT.replace('feature_name: "place" value_dim: 2', 'feature_name: "place" value_dim: 2 embedding_dim: 4 mlp {}')
    autodis = FLAT.replace(
        'feature_name: "size"', 'feature_name: "size" embedding_dim: 4 autodis { num_channels: 3 temperature: 0.5 keep_prob: 0.7 }')
    model = 'multi_tower { towers { input: "deep" mlp { hidden_units: [8, 4] } } final { hidden_units: [6] } }'
    return {
        "raw_mlp": pipeline(DEEP, model, features=embedded),
        "autodis": pipeline(DEEP, model, features=autodis),
        "variational_dropout": pipeline(DEEP, model, losses=BINARY + "  variational_dropout { regularization_lambda: 0.1 }\n"),
    }


def multi_task():
    experts = "expert_mlp { hidden_units: [8, 5] } num_expert: 3 "
    network = ('extraction_networks { network_name: "%s" expert_num_per_task: %d share_num: %d '
               "task_expert_net { hidden_units: [%s] } share_expert_net { hidden_units: [%s] } }")
    relation = 'relation_tower_names: "ctr" relation_mlp { hidden_units: [5] }'
    space = 'task_space_indicator_label: "clk" in_task_space_weight: 1 out_task_space_weight: %s'
    groups = """  feature_groups { group_name: "all" feature_names: ["size", "place", "user", "tags"] }
  feature_groups { group_name: "domain" feature_names: ["words"] }
  feature_groups { group_name: "uia" feature_names: ["user", "size"] }
"""
    two = {"data": TWO, "losses": NO_LOSSES}
    ppnet = "ppnet_hidden_units: [6, 5] "
    jrc = 'jrc_loss { session_name: "user" }'
    return {
        "mmoe": pipeline(DEEP, "mmoe { %s %s }" % (experts, two_towers()), **two),
        "mmoe_gate_mlp": pipeline(DEEP, "mmoe { %s gate_mlp { hidden_units: [7] } %s }" % (
            experts, two_towers(more=space % 0, mlp="")), **two),
        "mmoe_weights": pipeline(DEEP, "mmoe { %s %s }" % (experts, two_towers(
            more='weight: 3 sample_weight_name: "w" ' + space % 0.25)), data=labels("clk", "buy", weights=["w"]), losses=NO_LOSSES),
        "mmoe_kinds": pipeline(DEEP, "mmoe { %s %s %s %s }" % (
            experts, tower("ctr", "clk"), tower("stars", "grade", loss="softmax_cross_entropy {}", more="num_class: 4").replace("auc", "accuracy"),
            tower("time", "seconds", loss="l2_loss {}").replace("auc", "mean_squared_error")),
            data=labels("seconds", "clk", "grade"), losses=NO_LOSSES),
        "ple": pipeline(DEEP, "ple { %s %s %s }" % (
            network % ("first", 2, 1, "8, 6", "7, 6"), network % ("second", 1, 2, "5", "5"), two_towers()), **two),
        "ple_one_layer": pipeline(DEEP, "ple { %s %s }" % (network % ("only", 1, 1, "6", "6"), two_towers(mlp="")), dense=DENSE_SGD, **two),
        "dbmtl": pipeline(DEEP, "dbmtl { bottom_mlp { hidden_units: [8] } %s }" % two_towers(more=relation), **two),
        "dbmtl_plain": pipeline(DEEP, "dbmtl { %s }" % two_towers(), **two),
        "dbmtl_mask_net": pipeline(
            DEEP, "dbmtl { mask_net { n_mask_blocks: 2 mask_block { hidden_dim: 5 } top_mlp { hidden_units: [6] } } %s }" % two_towers(more=relation), **two),
        "dbmtl_experts": pipeline(
            DEEP, "dbmtl { bottom_mlp { hidden_units: [8] } %s gate_mlp { hidden_units: [4] } %s }" % (experts, two_towers(more=relation)), **two),
        "dbmtl_jrc": pipeline(DEEP, "dbmtl { bottom_mlp { hidden_units: [8] } %s %s }" % (
            tower("ctr", "clk", loss=jrc, more="num_class: 2"), tower("cvr", "buy", loss=jrc, more="num_class: 2 " + relation)), **two),
        "pepnet": pipeline(groups, "pepnet { epnet_hidden_unit: 5 %s %s }" % (ppnet, two_towers()), **two),
        "pepnet_without_domain": pipeline(without(groups, "domain"), "pepnet { %s %s }" % (ppnet, two_towers()), **two),
        "pepnet_epnet_alone": pipeline(without(groups, "uia"), "pepnet { epnet_gamma: 1.5 %s }" % two_towers(), **two),
        "pepnet_domains": pipeline(
            groups, 'pepnet { domain_input_name: "place_id" task_domain_num: 3 %s ppnet_gamma: 1.2 %s }' % (ppnet, two_towers(more=space % 0)),
            data=labels("clk", "buy", "place_id"), losses=NO_LOSSES, dense=DENSE_SGD),
    }


def sequences():
    members = '["item", "shop", "past__item", "past__shop", "past__price"]'
    even = '["item", "shop", "past__item", "past__shop"]'  # as wide as the query
    no_query = '["past__item", "past__shop", "past__price"]'
    nested = """  feature_groups { group_name: "all" feature_names: ["size", "user", "item"]
    sequence_groups { group_name: "past" feature_names: %s }
    sequence_encoders { %s }
  }
"""
    attn = "attn_mlp { hidden_units: [6, 4] }"
    model = 'multi_tower { towers { input: "all" mlp { hidden_units: [8, 4] } } final { hidden_units: [6] } }'

    def encoded(encoder, names=members, **other):
        return pipeline(nested % (names, encoder), model, features=FLAT + ITEM + HISTORY, dense=DENSE_SGD, **other)

    din_groups = """  feature_groups { group_name: "flat" feature_names: ["size", "user", "item"] }
  feature_groups { group_name: "history" group_type: SEQUENCE feature_names: %s }
""" % members
    twice = nested.replace("    sequence_encoders { %s }", "    sequence_encoders { %s }\n    sequence_encoders { pooling_encoder { input: 'past' } }")
    shared = (ITEM + HISTORY).replace('feature_name: "item" num_buckets', 'feature_name: "item" embedding_name: "item_rows" num_buckets')
    alone = """feature_configs { sequence_id_feature { feature_name: "seen" num_buckets: 7 embedding_dim: 4 sequence_length: 5 sequence_delim: ";" } }
feature_configs { sequence_id_feature { feature_name: "words_seen" num_buckets: 8 embedding_dim: 4 value_dim: 0 pooling: "mean" sequence_length: 5 sequence_delim: ";" } }
feature_configs { sequence_raw_feature { feature_name: "spent" value_dim: 2 sequence_length: 5 sequence_delim: ";" } }
"""
    return {
        "din_encoder": encoded("din_encoder { %s }" % attn),
        "din_encoder_cut": encoded("din_encoder { max_seq_length: 3 %s }" % attn),
        "din_encoder_dice": encoded('din_encoder { attn_mlp { hidden_units: [6] activation: "Dice" } }'),
        "din_encoder_batch_norm": encoded("din_encoder { attn_mlp { hidden_units: [6] use_bn: true } }"),
        "simple_attention": encoded("simple_attention {}", even),
        "pooling_encoder": encoded("pooling_encoder {}", no_query),
        "pooling_encoder_sum": encoded("pooling_encoder { pooling_type: 'sum' max_seq_length: 2 }", no_query),
        "self_attention": encoded("self_attention_encoder { multihead_attn_dim: 6 num_heads: 2 }", no_query),
        "multi_window_din": encoded("multi_window_din_encoder { windows_len: [1, 2, 2] %s }" % attn, even),
        "two_encoders": pipeline(twice % (members, "din_encoder { input: 'past' %s }" % attn), model, features=FLAT + ITEM + HISTORY, dense=DENSE_SGD),
        "shared_tables": pipeline(nested % (members, "din_encoder { %s }" % attn), model, features=FLAT + shared, dense=DENSE_SGD, sparse=ROW_WISE),
        "multi_tower_din": pipeline(
            din_groups, 'multi_tower_din { towers { input: "flat" mlp { hidden_units: [6] } } din_towers { input: "history" %s } final { hidden_units: [6] } }' % attn,
            features=FLAT + ITEM + HISTORY, dense=DENSE_SGD),
        "sequences_of_their_own": pipeline(
            nested % ('["item", "seen", "words_seen", "spent"]', "din_encoder { %s }" % attn), model, features=FLAT + ITEM + alone, dense=DENSE_SGD),
        "mmoe_sequence": pipeline(nested % (members, "din_encoder { %s }" % attn), "mmoe { expert_mlp { hidden_units: [8, 5] } %s }" % two_towers(),
                                  features=FLAT + ITEM + HISTORY, dense=DENSE_SGD, data=TWO, losses=NO_LOSSES),
    }


SAMPLER = """  negative_sampler { input_path: "given" num_sample: 6 attr_fields: ["item", "shop", "cost"] item_id_field: "item" }
"""


def matching():
    """Rows choose items; those of negative_sampler are given in a file of their own."""
    features = """feature_configs { raw_feature { feature_name: "size" } }
feature_configs { id_feature { feature_name: "user" num_buckets: 12 embedding_dim: 4 value_dim: 1 } }
feature_configs { id_feature { feature_name: "tags" num_buckets: 7 embedding_dim: 4 } }
feature_configs { raw_feature { feature_name: "cost" value_dim: 2 } }
""" + ITEM
    twins = """feature_configs { id_feature { feature_name: "user_twin" num_buckets: 12 embedding_dim: 3 value_dim: 1 } }
feature_configs { id_feature { feature_name: "item_twin" num_buckets: 7 embedding_dim: 3 value_dim: 1 } }
"""
    towers = """  feature_groups { group_name: "who" feature_names: ["size", "user", "tags"] }
  feature_groups { group_name: "what" feature_names: ["item", "shop", "cost"] }
"""
    twin_groups = """  feature_groups { group_name: "who_twin" feature_names: "user_twin" }
  feature_groups { group_name: "what_twin" feature_names: "item_twin" }
"""
    history = """  feature_groups { group_name: "past" group_type: SEQUENCE feature_names: ["past__item", "past__shop", "past__price"] }
"""
    in_batch, cosine = "in_batch_negative: true", "similarity: COSINE temperature: 0.3"
    mlp = "mlp { hidden_units: [8, 6] %s }"
    softmax = "  losses { softmax_cross_entropy {} }\n  metrics { recall_at_k { top_k: 1 } }\n"
    sampled = labels("label") + SAMPLER
    twins_sampled = sampled.replace('"cost"', '"cost", "item_twin"')

    def two(name, settings, layers="", augment="", dim="output_dim: 3"):
        sides = [(side, group) for side, group in (("user_tower", "who"), ("item_tower", "what"))]
        text = " ".join('%s { input: "%s" %s %s }' % (side, group, augment % group if augment else "", mlp % layers)
                        for side, group in sides)
        return f"{name} {{ {text} {dim} {settings} }}"

    # Where one unit gives the direction of a vector, its gradient is 0 but for rounding: Adam and AdaGrad make steps of that.
    def case(model, groups=towers, features=features, sparse=SGD, dense=DENSE_SGD, **other):
        return pipeline(groups, model, sparse, dense, features, losses=softmax, **other)

    capsules = "capsule_config { max_k: 3 high_dim: 3 num_iters: %d routing_logits_scale: 2 squash_pow: 0.5 %s }"
    of_user = 'user_tower { input: "who" history_input: "past" user_mlp { hidden_units: [6, 5] } %s %s concat_mlp { hidden_units: [8, 6] bias: false %s } }'
    of_item = 'item_tower { input: "what" mlp { hidden_units: [7, 6] } }'
    layers_of_history = "hist_seq_mlp { hidden_units: [6, 5] bias: false }"

    def mind(routing, settings, layers=layers_of_history, activation="activation: 'nn.Tanh'", **other):
        return case(f"mind {{ {of_user % (layers, routing, activation)} {of_item} output_dim: 3 simi_pow: 4 {settings} }}",
                    towers + history, features + HISTORY, **other)

    augmented, weights = 'augment_input: "%s_twin"', "amm_u_weight: 0.2 amm_i_weight: 0.3"
    shared = features.replace('feature_name: "tags"', 'feature_name: "tags" embedding_name: "items"').replace(
        'feature_name: "item"', 'feature_name: "item" embedding_name: "items"')
    return {
        "dssm": case(two("dssm", in_batch), sparse=ADAGRAD),
        "dssm_cosine": case(two("dssm", f"{in_batch} {cosine}", dim=""), dense=DENSE_ADAM),
        "dssm_batch_norm": case(two("dssm", f"{in_batch} {cosine}", "use_bn: true"), sparse=ADAGRAD, dense=DENSE_ADAM, data=sampled),
        "dssm_sampled": case(two("dssm", "temperature: 0.5"), sparse=ADAGRAD, data=sampled),
        "dssm_sampled_in_batch": case(two("dssm", f"{in_batch} {cosine}"), data=sampled, sparse=ROW_WISE),
        "dssm_weighted": case(two("dssm", cosine), data=labels("label", weights=["w"]) + SAMPLER),
        "dssm_v2_shared": case(two("dssm_v2", f"{in_batch} {cosine}"), features=shared, data=sampled),
        "dat": case(two("dat", f"{in_batch} {cosine} {weights}", augment=augmented), towers + twin_groups, features + twins,
                    ADAGRAD, DENSE_ADAM),
        "dat_sampled": case(two("dat", f"{weights}", augment=augmented), towers + twin_groups, features + twins, ADAGRAD,
                            data=twins_sampled),
        "mind": mind(capsules % (3, "max_seq_len: 4"), f"{in_batch} temperature: 0.3"),
        "mind_sampled": mind(capsules % (2, "const_caps_num: true routing_logits_stddev: 0.5"), "temperature: 0.5", data=sampled),
        "mind_inner_product": mind(capsules % (1, ""), "similarity: INNER_PRODUCT " + in_batch, "", "", sparse=ADAGRAD),
    }


def all_cases():
    """Pipeline text by name."""
    return single_task() | ranking() | numeric_embeddings() | multi_task() | sequences() | matching()
