"""Shared code of the tests of `emblem bench train`."""

import json
import os

from harness import PIPELINE, EmblemTest, run

# These tests do not use the machine's limits.
BRIEF = {"EMBLEM_BRIEF_CEILINGS": "1"}


class TrainBenchTest(EmblemTest):
    rows = 20000

    def bench(self, *options, environment=BRIEF):
        out = self.folder / "train.json"
        done = self.succeed(run("bench", "train", "--seconds", "0.1", "--warmup", 1, "--json", out, *options,
                                env={**os.environ, **environment}))
        results = json.loads(out.read_text())
        return results if isinstance(results, list) else [results], done.stdout

    def bound_of(self, *options, environment=BRIEF):
        results, printed = self.bench(*options, environment=environment)
        settings = results[0]["settings"]
        self.assertIn(f"Bound by {settings['bound']}: ", printed)
        shares = {name: settings[f"time_share_{name}"] for name in ("data", "copy", "dense", "embedding", "launch")}
        self.assertAlmostEqual(sum(shares.values()), 1)
        self.assertEqual(settings["bound"], max(shares, key=shares.get), shares)
        return settings["bound"], shares

    def pipeline(self, name, model, dim=8):
        start, end = PIPELINE.index("  dlrm {{"), PIPELINE.index("  metrics")
        text = PIPELINE[:start] + model.replace("{", "{{").replace("}", "}}") + "\n" + PIPELINE[end:]
        text = text.replace("embedding_dim: 8", f"embedding_dim: {dim}")
        return self.write_config(name, text.format(data=self.data, model=self.folder / "model"))
