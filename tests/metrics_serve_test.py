"""The metrics of a server as Prometheus reads them: prometheus_client and promtool."""

import shutil
import subprocess
import unittest

from harness import SOURCE, EmblemTest, Server, run, use_test_clients

use_test_clients("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families

PROMTOOL = shutil.which("promtool") or shutil.which(SOURCE / "build/test-clients/bin/promtool")


class Metrics(EmblemTest):
    rows = 2000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.repository = cls.make_served("one", "two")
        server = Server(cls.repository)
        try:
            for name in ("one", "two"):
                sent = run("bench", "serve", "--url", server.http, "--model", name, "--batch", "4", "--concurrency", "1",
                           "--requests", "10", "--warmup", "0")
                assert sent.returncode == 0, sent.stderr
            cls.text = server.get("/metrics", server.metrics)[1].decode()
        finally:
            server.stop()

    def test_prometheus_client_reads_every_family(self):
        families = list(text_string_to_metric_families(self.text))
        names = [family.name for family in families]
        self.assertEqual(len(names), len(set(names)), "the samples of a metric are not together")
        for family in families:
            self.assertTrue(family.documentation, family.name)
            self.assertNotIn(family.type, ("unknown", "untyped"), family.name)
        by_name = {family.name: family for family in families}
        for name in ("emblem_request_duration_seconds", "emblem_batch_rows"):
            self.assertEqual(by_name[name].type, "histogram")
            counts = {s.labels["model"]: s.value for s in by_name[name].samples if s.name == name + "_count"}
            self.assertGreaterEqual(counts["one"], 10)
            for model in ("one", "two"):
                buckets = [s.value for s in by_name[name].samples
                           if s.name == name + "_bucket" and s.labels["model"] == model]
                self.assertEqual(buckets, sorted(buckets))
                self.assertEqual(buckets[-1], counts[model])
        self.assertIn("nv_inference_request_success", by_name)
        self.assertEqual(len({s.labels["table"] for s in by_name["emblem_missing_keys"].samples}), 26)
        self.assertGreater(by_name["emblem_model_load_timestamp_seconds"].samples[0].value, 1.7e9)

    @unittest.skipUnless(PROMTOOL, "needs promtool; tools/test_clients.sh installs it")
    def test_promtool_finds_nothing_but_tritons_names(self):
        checked = subprocess.run([PROMTOOL, "check", "metrics"], input=self.text, capture_output=True, text=True)
        self.assertIn(checked.returncode, (0, 3), checked.stderr)  # 3: advice on names
        advice = [line for line in (checked.stdout + checked.stderr).splitlines() if not line.startswith("nv_")]
        self.assertEqual(advice, [])


if __name__ == "__main__":
    unittest.main()
