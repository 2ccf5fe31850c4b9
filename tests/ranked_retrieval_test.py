"""Items that are found and ranked in one request, and changed by tritonclient over gRPC."""

import http.client
import json
import tempfile
import unittest

from harness import SOURCE, Server, run, use_test_clients

use_test_clients("numpy", "tritonclient")
import numpy as np
import tritonclient.grpc as triton_grpc
from index_test import ITEM_COLUMNS, ITEMS, USERS, Retrieval, features, outputs_of, post
from matching_test import CONFIG
from torcheasyrec import STEPS, Run, tensor_of
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

RANKING = SOURCE / "configs/taobao/multi_tower_din.config"
FOUND, BEST = 20, 5


def triton_inputs(tensors):
    """Inputs of tritonclient with the values of JSON tensors."""
    inputs = []
    for tensor in tensors:
        kind = {"BYTES": np.object_, "INT64": np.int64, "FP32": np.float32}[tensor["datatype"]]
        array = np.array(tensor["data"], kind).reshape(tensor["shape"])
        inputs.append(triton_grpc.InferInput(tensor["name"], array.shape, np_to_triton_dtype(array.dtype)))
        inputs[-1].set_data_from_numpy(array)
    return inputs


class RankedRetrieval(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        one = cls.one = Retrieval(CONFIG, cls.folder.name, divide=100)
        one.make_data()
        one.train("tower", STEPS // 2)
        cls.rows = one.write_users()
        cls.items = one.write_items("items.csv", 1)
        ranking = Run(RANKING, one.folder / "ranking", divide=100)
        ranking.make_data()
        ranking.train("model", STEPS // 2)
        cls.repository = one.folder / "models"
        said = one.succeed("index", "--checkpoint", one.folder / "tower", "--items", cls.items, "--id", "sku", "--columns",
                           ",".join(ITEM_COLUMNS), "--out", cls.repository / "rec")
        assert f"{ITEMS} items" in said, said
        one.succeed("export", "--checkpoint", ranking.folder / "model", "--out", cls.repository / "rank")
        cls.server = Server(cls.repository, "--allow-item-changes", "--control-token", "change")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    def setUp(self):
        self.http = http.client.HTTPConnection(self.server.http, timeout=120)
        self.addCleanup(self.http.close)
        self.grpc = triton_grpc.InferenceServerClient(self.server.grpc)
        self.addCleanup(self.grpc.close)

    def infer(self, model, inputs, **parameters):
        status, answer = post(self.http, f"/v2/models/{model}/infer", {"inputs": inputs, "parameters": parameters})
        self.assertEqual(status, 200, answer)
        return outputs_of(answer), answer.get("parameters")

    def metadata(self, model):
        return json.loads(self.server.get(f"/v2/models/{model}")[1])

    def rank_by_hand(self, found):
        """Scores of the ranking model for the items of each user, from the files that both commands read."""
        texts = {sku: dict(zip(ITEM_COLUMNS, item)) for sku, item in zip(self.one.ids, self.one.items)}
        rows = [{**user, "pid": "v1", **texts[sku]} for user, ids in zip(self.rows, found["ids"]) for sku in ids]
        texts_of = [tensor_of(i["name"], "BYTES", [row[i["name"]] for row in rows]) for i in self.metadata("rank")["inputs"]]
        scores = self.infer("rank", texts_of)[0]
        return next(iter(scores.values())).reshape(found["ids"].shape)

    def test_items_found_are_ranked_in_the_same_request(self):
        users = features(self.metadata("rec"), self.rows)
        found, _ = self.infer("rec", users, top_k=FOUND)
        by_hand = self.rank_by_hand(found)
        order = np.argsort(-by_hand, axis=1, kind="stable")[:, :BEST]
        expected = {"rank_scores": np.take_along_axis(by_hand, order, axis=1),
                    **{name: np.take_along_axis(found[name], order, axis=1) for name in ("ids", "scores")}}
        pid = tensor_of("pid", "BYTES", ["v1"] * USERS)
        asked = {"top_k": BEST, "candidates": FOUND, "then_rank": "rank"}
        ranked, parameters = self.infer("rec", [*users, pid], **asked)
        self.assertEqual(parameters, {"index_version": 1, "index_change": parameters["index_change"], "rank_version": 1})
        for name, values in expected.items():
            np.testing.assert_array_equal(ranked[name], values, name)
        over_grpc = self.grpc.infer("rec", triton_inputs([*users, pid]), parameters=asked)
        for name, values in expected.items():
            np.testing.assert_array_equal(over_grpc.as_numpy(name), values.astype(over_grpc.as_numpy(name).dtype), name)
        self.assertEqual(over_grpc.get_response().parameters["rank_version"].int64_param, 1)

        status, answer = post(self.http, "/v2/models/rec/infer", {"inputs": users, "parameters": asked})
        self.assertEqual(status, 400)
        self.assertIn("missing: pid", answer["error"])
        status, answer = post(self.http, "/v2/models/rec/infer", {"inputs": users, "parameters": {**asked, "then_rank": "no"}})
        self.assertEqual(status, 404)
        self.assertIn("then_rank: Request for unknown model: 'no'", answer["error"])

    def test_items_change_over_grpc(self):
        users = self.one.tower("tower", "user_tower_emb", self.one.folder / "users.csv")[:2]
        item = self.one.items[0]
        put = [{"name": "ids", "datatype": "INT64", "shape": [2], "data": [9001, 9002]},
               {"name": "vectors", "datatype": "FP32", "shape": list(users.shape), "data": users.flatten().tolist()},
               *({"name": name, "datatype": "BYTES", "shape": [2], "data": [text, text]}
                 for name, text in zip(ITEM_COLUMNS, item))]
        gone = put[:1]

        def change(tensors, what, token="change"):
            headers = {"authorization": f"Bearer {token}"} if token else None
            answer = self.grpc.infer("rec", triton_inputs(tensors), parameters={"change_items": what}, headers=headers)
            parameters = answer.get_response().parameters
            return parameters["change"].int64_param, parameters["items"].int64_param

        def best():
            vectors = {"name": "user_vector", "datatype": "FP32", "shape": list(users.shape), "data": users.flatten().tolist()}
            found, parameters = self.infer("rec", [vectors], top_k=1)
            return found["ids"][:, 0].tolist(), parameters["index_change"]

        with self.assertRaises(InferenceServerException) as refused:
            change(put, "put", token="")
        self.assertIn("PERMISSION_DENIED", str(refused.exception.status()))
        self.assertEqual(change(put, "put"), (1, ITEMS + 2))
        self.assertEqual(best(), ([9001, 9002], 1))
        with self.assertRaises(InferenceServerException) as refused:
            change(put[:2], "put")
        self.assertIn("'adgroup_id' is missing, a column that is stored with the items", refused.exception.message())
        self.assertEqual(change(gone, "remove"), (2, ITEMS))
        self.assertNotIn(9001, best()[0])
        with self.assertRaises(InferenceServerException) as refused:
            change(gone, "remove")
        self.assertIn("NOT_FOUND", str(refused.exception.status()))

    def test_columns_that_cannot_be_stored_are_refused(self):
        for columns, words in (("price,price", "stored twice"), ("none", "none")):
            refused = run("index", "--checkpoint", self.one.folder / "tower", "--items", self.items, "--id", "sku", "--columns",
                          columns, "--out", self.repository / "other")
            self.assertEqual(refused.returncode, 1, refused.stdout)
            self.assertIn(words, refused.stderr)
            self.assertFalse((self.repository / "other/1").exists())


if __name__ == "__main__":
    unittest.main()
