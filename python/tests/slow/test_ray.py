"""Ranks as actors of a local Ray cluster."""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import emblem
import rows


def has_ray():
    if importlib.util.find_spec("ray") is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "ray"], check=False)
    return importlib.util.find_spec("ray") is not None


SETTINGS = {"data_config.shuffle": False, "train_config.logical_shards": 2}


def train(folder, marker):
    """One rank. The first attempt of rank 1 dies where there is a marker to make."""
    import os
    import emblem as module
    import rows as data
    if marker and os.environ["RANK"] == "1" and not os.path.exists(marker):
        pathlib.Path(marker).touch()
        os._exit(9)
    model = module.train(data.make(), data.PIPELINE, epochs=1, model_dir=folder, resume=True, settings=SETTINGS, progress=False)
    return model.history.rank, model.history.ranks, model.predict(data.make(20)).tolist()


def fail():
    raise ValueError("of mine")


@unittest.skipUnless(has_ray(), "ray does not install here")
class RayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import ray
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False,
                 runtime_env={"env_vars": {"PYTHONPATH": ":".join(path for path in sys.path if path)}})

    @classmethod
    def tearDownClass(cls):
        import ray
        ray.shutdown()

    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="emblem-test-")
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def test_ranks_give_the_bytes_of_one_process_and_are_restarted(self):
        import emblem.ray
        alone = emblem.train(rows.make(), rows.PIPELINE, epochs=1, settings=SETTINGS, progress=False)
        for name, marker, restarts in (("m", "", 0), ("n", str(self.folder / "marker"), 2)):
            found = emblem.ray.launch(train, str(self.folder / name), marker, ranks=2, restarts=restarts)
            self.assertEqual([one[:2] for one in found], [(0, 2), (1, 2)])
            for one in found:
                np.testing.assert_array_equal(np.array(one[2], np.float32), alone.predict(rows.make(20)))

    def test_errors_are_those_of_the_function_or_of_the_cluster(self):
        import emblem.ray
        with self.assertRaisesRegex(ValueError, "of mine"):
            emblem.ray.launch(fail, ranks=2)
        with self.assertRaisesRegex(emblem.Error, "the cluster had no 100 times"):
            emblem.ray.launch(fail, ranks=100, timeout=5)
        with self.assertRaisesRegex(emblem.Error, "at least 1"):
            emblem.ray.launch(fail, ranks=0)


if __name__ == "__main__":
    unittest.main()
