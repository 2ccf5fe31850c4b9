"""Rows for tests: a planted effect of a category and a number, with all kinds of columns."""
import numpy as np


def make(rows=2000, seed=1):
    """A dict of columns; `click` depends on user and price."""
    draw = np.random.default_rng(seed)
    user, price = draw.integers(0, 40, rows), draw.normal(3, 2, rows)
    chance = 1 / (1 + np.exp(-(user % 4 - 1.5) - 0.5 * (price - 3)))
    return {"user": user.astype(np.int64), "price": price, "city": np.array([f"c{one % 7}" for one in user * 3 + 1]),
            "count": draw.integers(0, 9, rows).astype(np.int32), "click": (draw.random(rows) < chance).astype(np.int64)}


PIPELINE = """
train_config { sparse_optimizer { adagrad_optimizer { lr: 0.1 } } dense_optimizer { adam_optimizer { lr: 0.01 } }
               num_epochs: 3 save_checkpoints_steps: 0 }
data_config { dataset_type: ParquetDataset label_fields: "click" batch_size: 100 shuffle: true fg_mode: FG_DAG }
feature_configs { raw_feature { feature_name: "price" normalizer: "method=zscore,mean=3,standard_deviation=2" } }
feature_configs { raw_feature { feature_name: "count" } }
feature_configs { id_feature { feature_name: "user" num_buckets: 40 embedding_dim: 4 } }
feature_configs { id_feature { feature_name: "city" hash_bucket_size: 100 embedding_dim: 4 } }
model_config { feature_groups { group_name: "deep" feature_names: ["price", "count", "user", "city"] }
               dnn { deep { hidden_units: [16, 8] } } metrics { auc {} } }
"""
