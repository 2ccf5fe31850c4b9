"""Repositories as users of HPS have them load unchanged and answer as HPS did, over HTTP and gRPC."""

import http.client
import json
import pathlib
import shutil
import tempfile
import unittest

from harness import Server, gpu_is_missing, use_test_clients

use_test_clients("tritonclient")
import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

import hps_samples as samples

# The slots of the sample with two tables: pairs of features (dimension 1), and the features.
PAIRS = [278018, 415262]
SLOTS = [249058, 19561, 14212, 6890, 18592, 4, 6356, 1254, 52, 226170, 80508, 72308, 11, 2169, 7597, 61, 4, 923, 15,
         249619, 168974, 243480, 68212, 9169, 75, 34]


def ask(address, protocol, model, keys, counts):
    """The answer and its parameters."""
    keys, counts = np.asarray(keys, np.int64), np.asarray(counts, np.int32)
    client = protocol.InferenceServerClient(address)
    inputs = [protocol.InferInput("KEYS", keys.shape, "INT64"), protocol.InferInput("NUMKEYS", counts.shape, "INT32")]
    inputs[0].set_data_from_numpy(keys)
    inputs[1].set_data_from_numpy(counts)
    result = client.infer(model, inputs, request_id="1", outputs=[protocol.InferRequestedOutput("OUTPUT0")])
    response = result.get_response()
    if protocol is triton_http:
        parameters = response.get("parameters", {})
    else:
        parameters = {name: value.int64_param for name, value in response.parameters.items()}
    client.close()
    return result.as_numpy("OUTPUT0"), parameters


class HpsSamples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-hps-"))
        cls.repository = cls.folder / "models"
        cls.random = np.random.default_rng(3)
        cls.on_gpu = not gpu_is_missing()
        cls.tables, entries = {}, []

        # Two tables of different dimensions, batches, an L2 in memory as older releases describe it.
        version = samples.write_model(cls.repository, "hps_wdl", max_batch_size=1024)
        cls.tables["hps_wdl"] = [
            samples.Table(version / "wdl0_sparse_20000.model", cls.random.permutation(sum(PAIRS)), 1),
            samples.Table(version / "wdl1_sparse_20000.model", sum(PAIRS) + cls.random.permutation(sum(SLOTS)), 16, 0.0)]
        entries.append(samples.model_entry("hps_wdl", cls.tables["hps_wdl"], [2, 26], hit_rate_threshold=0.9,
                                           num_of_refresher_buffer_in_pool=1, maxnum_des_feature_per_sample=13,
                                           network_file="wdl.json", slot_num=28, label_dim=1))

        # The first step of an ensemble: no batches, tensors of two dimensions.
        version = samples.write_model(cls.repository, "hps_embedding", dims="-1, -1")
        cls.tables["hps_embedding"] = [samples.Table(version / "naive_dnn_sparse.model", range(30000), 16, 1.0)]
        entries.append(samples.model_entry("hps_embedding", cls.tables["hps_embedding"], [3], max_batch_size=65536,
                                           gpucacheper=1.0))

        # Version 0, parameters of the older backend, more defaults than tables.
        version = samples.write_model(
            cls.repository, "hps_test", max_batch_size=32, version=0, config="/models/hps_test/0/net.json", gpucache="true",
            hit_rate_threshold="0.8", gpucacheper="0.5", label_dim="1", slots="1", cat_feature_num="1", des_feature_num="0",
            max_nnz="2", embedding_vector_size="32", embeddingkey_long_type="true", refresh_interval="100",
            refresh_delay="3", freeze_sparse="false")
        cls.tables["hps_test"] = [samples.Table(version / "hps_sparse.model", range(1000), 32)]
        entries.append(samples.model_entry("hps_test", cls.tables["hps_test"], [1], embedding_table_names=["0"],
                                           default_value_for_each_table=[0.0, 0.0], max_batch_size=32,
                                           cache_refresh_percentage_per_iteration=0, hit_rate_threshold=1.1))

        # Caches of other types, and none.
        for name, more in {"static": {"embedding_cache_type": "static"}, "static2": {"use_static_table": True},
                           "uvm": {"embedding_cache_type": "uvm"}, "host": {"gpucache": False}}.items():
            version = samples.write_model(cls.repository, name)
            cls.tables[name] = [samples.Table(version / "t", cls.random.permutation(5000), 8, -1.0)]
            entries.append(samples.model_entry(name, cls.tables[name], [4], init_ec=True, fp8_quant=False,
                                               enable_pagelock=False, use_context_stream=True, thread_pool_size=16,
                                               use_hctr_cache_implementation=True, fuse_embedding_table=False, **more))

        # What stands next to them in such repositories and is not served.
        samples.write_model(cls.repository, "old", backend="hugectr")
        (cls.repository / "ensemble_model/1").mkdir(parents=True)
        (cls.repository / "ensemble_model/config.pbtxt").write_text(
            'name: "ensemble_model" platform: "ensemble" max_batch_size: 0\n'
            'input { name: "EMB_KEY" data_type: TYPE_INT64 dims: [-1, -1] }\n'
            'output { name: "DENSE_OUTPUT" data_type: TYPE_FP32 dims: [-1, 1] }\n'
            'ensemble_scheduling { step { model_name: "hps_embedding" model_version: -1\n'
            '  input_map { key: "KEYS" value: "EMB_KEY" } output_map { key: "OUTPUT0" value: "DENSE_OUTPUT" } } }\n')

        ps = samples.write_ps(cls.folder / "hps.json", entries, volatile_db={
            "type": "hash_map", "user_name": "default", "num_partitions": 8, "max_get_batch_size": 100000,
            "max_set_batch_size": 100000, "overflow_policy": "evict_oldest", "overflow_margin": 10000000,
            "overflow_resolution_target": 0.8, "initial_cache_rate": 1.0}, persistent_db={"type": "disabled"})
        cls.server = Server(cls.repository, "--ps", ps)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def answer(self, model, keys, counts, protocol=triton_http):
        """Checks rows and shape of an answer; returns its parameters."""
        address = self.server.http if protocol is triton_http else self.server.grpc
        rows, parameters = ask(address, protocol, model, keys, counts)
        flat, begin, expected = np.asarray(keys).reshape(-1), 0, []
        for table, count in zip(self.tables[model], np.asarray(counts).reshape(-1)):
            expected.append(table.look_up(flat[begin:begin + count]))
            begin += count
        np.testing.assert_array_equal(rows, np.concatenate(expected))  # [N], whatever the shapes of the inputs
        return parameters

    def test_two_tables_of_different_dimensions(self):
        shift = np.insert(np.cumsum(PAIRS + SLOTS), 0, 0)[:-1]
        features = self.random.integers(0, PAIRS + SLOTS, (10, 28)) + shift
        keys = np.concatenate([features[:, :2].reshape(-1), features[:, 2:].reshape(-1)])
        for protocol in (triton_http, triton_grpc):
            parameters = self.answer("hps_wdl", [keys], [[20, 260]], protocol)
            self.assertEqual(parameters, {"NumSample": 10, "DeviceID": 0})
        keys[5] = keys[100] = 10**12  # keys without a row
        self.answer("hps_wdl", [keys], [[20, 260]])
        self.answer("hps_wdl", [keys[20:]], [[0, 260]])

    def test_inputs_of_two_dimensions_without_batches(self):
        for keys in (self.random.integers(0, 40000, (1024, 3)), self.random.integers(0, 40000, (1, 3072))):
            for protocol in (triton_http, triton_grpc):
                self.assertEqual(self.answer("hps_embedding", keys, [[3072]], protocol)["NumSample"], 1024)
        metadata = triton_http.InferenceServerClient(self.server.http).get_model_metadata("hps_embedding")
        self.assertEqual([tensor["shape"] for tensor in metadata["inputs"]], [[-1, -1], [-1, -1]])
        self.assertEqual(metadata["outputs"][0]["shape"], [-1])
        metadata = triton_http.InferenceServerClient(self.server.http).get_model_metadata("hps_wdl")
        self.assertEqual(metadata["inputs"][0], {"name": "KEYS", "datatype": "INT64", "shape": [-1, -1]})

    def test_version_0(self):
        for protocol in (triton_http, triton_grpc):
            self.assertEqual(self.answer("hps_test", self.random.integers(0, 999, (1, 32)), [[32]], protocol)["NumSample"],
                             32)

    def test_every_type_of_cache_answers_alike(self):
        for name in ("static", "static2", "uvm", "host"):
            self.answer(name, self.random.integers(0, 6000, 100), [100])

    def test_more_samples_than_the_model_takes_are_refused(self):
        with self.assertRaisesRegex(Exception, "max_batch_size 32"):
            self.answer("hps_test", [range(33)], [[33]])

    def test_what_has_no_effect_is_logged_once(self):
        lines = [line for line in self.server.lines if "without effect" in line]
        self.assertEqual(len([line for line in lines if "hps.json.models[0]" in line]), 1, lines)
        self.assertEqual(len([line for line in lines if "hps.json.volatile_db" in line and "max_get_batch_size" in line]), 1)
        parameters = [line for line in lines if "hps_test/config.pbtxt: parameters" in line]
        self.assertEqual(len(parameters), 1, lines)
        self.assertIn("embeddingkey_long_type", parameters[0])
        for model in ("hps_wdl", "hps_embedding", "static", "host"):
            on_cpu = [line for line in self.server.lines if f"/{model}/config.pbtxt" in line and "runs on the CPU" in line]
            self.assertEqual(len(on_cpu), 0 if self.on_gpu and model != "host" else 1, self.server.lines)

    def test_models_of_other_backends_are_named_and_the_others_served(self):
        index = triton_http.InferenceServerClient(self.server.http).get_model_repository_index()
        state = {model["name"]: (model.get("state"), model.get("reason", "")) for model in index}
        self.assertEqual(state["hps_wdl"][0], "READY")
        self.assertIn("convert-hugectr", state["old"][1])
        self.assertIn("ensemble", state["ensemble_model"][1])


class OtherStores(unittest.TestCase):
    """The same table in every database that this program has."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-hps-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        version = samples.write_model(self.folder / "models", "hps_wdl", max_batch_size=64)
        self.table = samples.Table(version / "t", range(5000), 16, 2.5)
        self.entry = samples.model_entry("hps_wdl", [self.table], [26], max_batch_size=64)

    def check(self, **more):
        ps = samples.write_ps(self.folder / "ps.json", [self.entry], **more)
        server = Server(self.folder / "models", "--ps", ps)
        try:
            keys = np.random.default_rng(1).integers(0, 6000, (1, 260))
            rows, parameters = ask(server.http, triton_http, "hps_wdl", keys, [[260]])
            np.testing.assert_array_equal(rows, self.table.look_up(keys[0]))
            self.assertEqual(parameters["NumSample"], 10)
        finally:
            server.stop()
        return server

    def test_keys_of_32_bits(self):
        self.check(supportlonglong=False)

    def test_parallel_hash_map_and_no_update_source(self):
        self.check(volatile_db={"type": "parallel_hash_map", "allocation_rate": 268435456, "initial_cache_rate": 0.5},
                   update_source={"type": "null"})

    def test_the_block_without_a_database_on_disk(self):
        self.check(db_type="local", persistent_db={"type": "disabled", "max_get_batch_size": 10000})

    def test_rocksdb_alone(self):
        try:
            self.check(volatile_db={"type": "disabled", "refresh_time_after_fetch": False, "overflow_margin": 10000000},
                       persistent_db={"type": "rocksdb", "path": str(self.folder / "rocksdb"), "num_threads": 16,
                                      "read_only": False, "max_get_batch_size": 10000, "max_set_batch_size": 10000,
                                      "update_filters": ["^hps_.+$"]})
        except AssertionError as error:
            if "EMBLEM_ROCKSDB" not in str(error):
                raise
            self.skipTest("built without RocksDB")

    def test_a_table_that_would_lose_rows_is_refused(self):
        ps = samples.write_ps(self.folder / "ps.json", [self.entry],
                              volatile_db={"type": "hash_map", "num_partitions": 2, "overflow_margin": 99})
        server = Server(self.folder / "models", "--ps", ps)
        try:
            connection = http.client.HTTPConnection(server.http)
            connection.request("POST", "/v2/repository/index")
            [model] = json.loads(connection.getresponse().read())
            self.assertEqual(model["state"], "UNAVAILABLE")
            self.assertIn("no room for 4802 of its 5000 rows", model["reason"])
        finally:
            server.stop()

    def test_rows_that_may_be_lost_are_counted_and_warned_of(self):
        ps = samples.write_ps(self.folder / "ps.json", [self.entry],
                              volatile_db={"type": "hash_map", "num_partitions": 2, "overflow_margin": 99,
                                           "overflow_may_lose_rows": True})
        server = Server(self.folder / "models", "--ps", ps)
        try:
            metrics = server.get("/metrics", server.metrics)[1].decode()
            [evicted] = [line for line in metrics.splitlines() if line.startswith("emblem_rows_evicted_total{")]
            self.assertGreaterEqual(int(evicted.split()[-1]), 4802)
        finally:
            server.stop()
        self.assertTrue(any("no room for 4802 of its 5000 rows" in line for line in server.lines), server.lines)


if __name__ == "__main__":
    unittest.main()
