"""Where results are written to and models are read from: wrong places are found at once and named."""

import socket
import subprocess
import unittest

from harness import EMBLEM, EmblemTest, Server, files_of, run


class Places(EmblemTest):
    rows = 2000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.folder / "model"
        cls.repository = cls.make_served("fair")

    def export(self, out, *options):
        return run("export", "--checkpoint", self.model, "--out", out, *options)

    def test_export_refuses_places_that_are_no_model_folder(self):
        before = files_of(self.folder)
        fair = self.repository / "fair"
        checkpoint = next(self.model.glob("model.ckpt-*"))
        for out, expected in ((self.repository, f"is a model repository; give --out {self.repository}/NAME"),
                              (fair / "1", f"is a version of the model {fair}; give --out {fair} to add"),
                              (fair / "7", f"is inside the model {fair}; give --out {fair} --version 7"),
                              (fair / "x", f"is inside the model {fair}; give --out {fair} to add"),
                              (fair / "1/x", f"is inside {fair}/1, a checkpoint or version"),
                              (self.model, "is a model directory of training; give --out REPOSITORY/NAME"),
                              (checkpoint, "is a checkpoint; give --out REPOSITORY/NAME"),
                              (self.repository / "größe", "is not a valid model name"),
                              (self.repository / ("n" * 201), "is not a valid model name")):
            self.fail_with(self.export(out), expected)
        self.assertEqual(files_of(self.folder), before)

    def test_the_next_version_does_not_overflow(self):
        out = self.folder / "versions/fair"
        self.succeed(self.export(out, "--version", 2**63 - 1))
        self.fail_with(self.export(out), f"{2**63 - 1} has the highest version number; choose a free one with --version")
        self.succeed(self.export(out, "--version", 3))
        self.assertEqual(sorted(path.name for path in out.iterdir()), ["3", str(2**63 - 1), "config.pbtxt"])
        self.assertEqual(self.export(out, "--version", "9" * 22).returncode, 2)

    def test_an_export_to_a_full_disk_says_so(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("needs the right to mount a small tmpfs")
        try:
            self.fail_with(self.export(disk / "fair"), "No space left on device", str(disk))
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_a_server_without_models_says_why(self):
        empty = self.folder / "empty"
        empty.mkdir()
        for folder, expected in ((empty, f"no models in {empty}; emblem export --out {empty}/NAME"),
                                 (self.repository / "fair", "it is the folder of one model; serve its parent"),
                                 (self.repository / "fair/1", "it is a checkpoint or a version of a model"),
                                 (self.model, "it is a model directory of training; emblem export --checkpoint")):
            for mode in ("none", "poll", "explicit"):
                with self.subTest(folder=folder, mode=mode):
                    server = Server(folder, "--model-control-mode", mode)
                    self.assertEqual(server.stop(), 0)
                    said = next(line for line in server.lines if "no models in" in line)
                    self.assertIn(expected, said)
                    self.assertEqual("warning" in said, mode == "none")
        server = Server(self.repository)
        server.stop()
        self.assertNotIn("no models", "".join(server.lines))

    def test_a_port_in_use_is_found_before_models_are_loaded(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for name in ("http", "grpc", "metrics"):
                ports = {"http": 0, "grpc": 0, "metrics": 0, name: taken.getsockname()[1]}
                process = run("serve", "--models", self.repository, "--address", "127.0.0.1",
                              *(word for key, port in ports.items() for word in (f"--{key}-port", port)))
                self.fail_with(process, f"cannot listen on 127.0.0.1 port {ports[name]}: Address already in use")
                self.assertNotIn("is ready after", process.stderr)

    def test_results_that_cannot_be_written_are_found_before_the_work(self):
        missing = self.folder / "nodir/x"
        model = self.folder / "never"
        for option in ("--json", "--profile"):
            self.fail_with(self.train(model, option, missing), f"cannot write {missing}: No such file or directory")
            self.fail_with(self.train(model, option, self.folder), "Is a directory")
            self.assertFalse(model.exists())
        process = run("eval", "--checkpoint", self.folder / "nothing", "--json", missing)
        self.fail_with(process, f"cannot write {missing}: No such file or directory")

    def test_results_may_be_written_into_the_new_model_dir(self):
        model = self.folder / "new"
        self.succeed(self.train(model, "--json", model / "result.json"))
        self.assertTrue((model / "result.json").exists())

    def test_lost_output_is_a_failure(self):
        for words in (["eval", "--checkpoint", self.model], ["inspect", self.model],
                      ["train", "--config", self.config, "--model-dir", self.folder / "lost"]):
            with open("/dev/full", "w") as full:
                process = subprocess.run([EMBLEM, *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(process.returncode, 1, process.stderr)
            self.assertIn("emblem: cannot write standard output", process.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
