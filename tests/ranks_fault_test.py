"""Training on several ranks when something fails: every rank ends soon and says why, the last checkpoint is whole, and
training that continues gives the bytes of one without a failure."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import time
import unittest

from harness import EMBLEM, becomes_true, run, tcp_connections
from ranks import ENDLESS, HOST, HostsCase, RankTraining, free_port, is_alive

# Others notice within a second and end within 5; these limits allow for a busy machine.
SOON = 20
SILENCE = 40


def latest_manifest(model):
    checkpoints = sorted(model.glob("model.ckpt-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    try:
        return json.loads((checkpoints[-1] / "manifest.json").read_text())
    except (IndexError, OSError):
        return {}


# When a rank is killed, by name: whether it is time.
MOMENTS = {
    "loading": lambda model, ranks: all(tcp_connections(rank.process.pid) > 2 for rank in ranks),
    "stepping": lambda model, ranks: (model / "train_log.jsonl").exists() and (model / "train_log.jsonl").stat().st_size > 0,
    "saving": lambda model, ranks: list(model.glob(".*ckpt-*/tables")) and list(model.glob("model.ckpt-*")),
    "evaluating": lambda model, ranks: latest_manifest(model).get("evaluation_due"),
}


class FaultCase(RankTraining):

    def expect_end(self, ranks, line, since, within=SOON):
        """All of `ranks` end with one line that matches, in time."""
        for rank in ranks:
            self.assertRegex(self.line(rank), line)
        self.assertLess(max(rank.ended for rank in ranks) - since, within)

    def wait_for(self, moment, model, ranks):
        self.assertTrue(becomes_true(lambda: MOMENTS[moment](model, ranks) or any(rank.ended for rank in ranks)))
        self.assertEqual([rank.ended for rank in ranks], [None] * len(ranks), [rank.errors for rank in ranks])

    def resume(self, model, *options, ranks=2):
        """Trains on to the end; what was learned is what it would be without a fault."""
        job = self.launch(ranks, model, "--resume", *options)
        self.assertEqual(job.wait(), 0, job.errors)
        self.assertEqual(self.learned(model), self.undisturbed(*options))
        self.assertEqual([path.name for path in model.glob(".*")], [], "left-overs")


class KilledTest(FaultCase):

    def test_a_rank_that_is_killed(self):
        for moment, victim in (("loading", 1), ("stepping", 2), ("saving", 0), ("saving", 1), ("evaluating", 2),
                               ("evaluating", 0)):
            with self.subTest(moment=moment, victim=victim):
                model = self.folder / f"{moment}-{victim}"
                ranks = self.start(3, model, *ENDLESS)
                self.wait_for(moment, model, ranks)
                since = time.monotonic()
                ranks[victim].process.kill()
                others = [rank for rank in ranks if rank is not ranks[victim]]
                self.expect_end(others, rf"^rank {victim} \(host {HOST}\): connection closed", since)
                self.expect_whole(model)
        self.resume(self.folder / "saving-1", ranks=4)
        self.resume(self.folder / "evaluating-0", ranks=3)
        self.resume(self.folder / "loading-1")

    def test_a_rank_that_is_killed_while_others_join(self):
        job = self.launch(3, self.folder / "joining", *ENDLESS)
        self.assertTrue(becomes_true(lambda: len(job.ranks()) == 3))
        pids = job.ranks()
        since = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(job.wait(), 1)
        self.assertLess(time.monotonic() - since, SOON)
        self.assertEqual(job.errors[-1], f"emblem: rank 1 of 3 (host {HOST}): killed by signal 9 (Killed)")
        self.assertTrue(becomes_true(lambda: not any(map(is_alive, pids.values()))))

    def test_a_rank_that_is_stopped(self):
        model = self.folder / "stopped"
        ranks = self.start(3, model, *ENDLESS)
        self.wait_for("evaluating", model, ranks)
        since = time.monotonic()
        ranks[1].process.send_signal(signal.SIGSTOP)
        self.expect_end([ranks[0], ranks[2]], rf"^rank 1 \(host {HOST}\): no heartbeat for 9 s", since, SILENCE)
        ranks[1].process.send_signal(signal.SIGCONT)
        self.assertEqual(ranks[1].wait(), 1)
        self.expect_whole(model)
        self.resume(model)

    def test_restarts_reach_the_same_bits(self):
        for name, options in (("all", ("--restarts", 5)), ("fewer", ("--restarts", 5, "--least-ranks", 2))):
            with self.subTest(name):
                model = self.folder / f"restarts-{name}"
                more = ("--set", "train_config.num_epochs=3")
                job = self.launch(3, model, *more, launch_options=options)
                for checkpoint in (4, 12):
                    self.assertTrue(becomes_true(lambda: latest_manifest(model).get("step", 0) >= checkpoint
                                                 and len(job.ranks()) == 3 or job.process.poll() is not None))
                    self.assertIsNone(job.process.poll(), job.errors)
                    os.kill(job.ranks()[2], signal.SIGKILL)
                    self.assertTrue(becomes_true(lambda: f"restart {1 + (checkpoint == 12)}: " in "\n".join(job.errors)))
                self.assertEqual(job.wait(), 0, job.errors)
                self.assertEqual(self.learned(model), self.undisturbed(*more))
                if name == "fewer":
                    self.assertIn("restart 2: 2 ranks", "\n".join(job.errors))


class InterruptedTest(FaultCase):

    def test_an_interrupted_launcher(self):
        model = self.folder / "launcher"
        job = self.launch(3, model, "--set", "train_config.num_epochs=4")
        self.assertTrue(becomes_true(lambda: latest_manifest(model)))
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(), 130, job.errors)
        self.expect_interrupted(model, job.lines)

    def test_an_interrupted_rank(self):
        for moment, victim, request in (("stepping", 1, signal.SIGINT), ("evaluating", 0, signal.SIGTERM)):
            with self.subTest(moment=moment):
                model = self.folder / f"interrupted-{moment}"
                ranks = self.start(3, model, "--set", "train_config.num_epochs=4")
                self.wait_for(moment, model, ranks)
                ranks[victim].process.send_signal(request)
                statuses = [rank.wait() for rank in ranks]
                self.assertEqual([status - 128 if number == victim else status for number, status in enumerate(statuses)],
                                 [request if number == victim else 130 for number in range(3)])
                self.expect_interrupted(model, ranks[0].output.splitlines())

    def test_an_interruption_before_the_first_step(self):
        """One rank has the signal before it asks the others."""
        for victim in (0, 2):
            model = self.folder / f"early-{victim}"
            ranks = self.start(3, model, *ENDLESS)
            self.wait_for("loading", model, ranks)
            ranks[victim].process.send_signal(signal.SIGINT)
            statuses = [rank.wait() for rank in ranks]
            self.assertIn(statuses[victim], (130, -signal.SIGINT))  # the latter: before it listens to signals
            self.assertEqual(set(statuses) - {statuses[victim], 130, 1}, set())
            for rank in ranks:
                self.assertNotIn("collectives", "\n".join(rank.errors))

    def test_a_launcher_whose_rank_is_interrupted(self):
        model = self.folder / "rank-of-launcher"
        job = self.launch(2, model, *ENDLESS, launch_options=("--restarts", 3))
        self.assertTrue(becomes_true(lambda: latest_manifest(model)))
        os.kill(job.ranks()[1], signal.SIGTERM)
        self.assertEqual(job.wait(), 143, job.errors)

    def expect_interrupted(self, model, lines):
        self.assertRegex("\n".join(lines), r"interrupted after \d+ steps; continue with --resume")
        self.expect_whole(model)
        self.resume(model, "--set", "train_config.num_epochs=4", ranks=4)


class DiskTest(FaultCase):

    def test_a_rank_that_cannot_write(self):
        """As a full disk: files of this rank cannot become longer than 1 KiB."""
        model = self.folder / "limited"
        self.succeed(run(*self.command(model, "--max-steps", 3)))
        port = free_port()

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        ranks = [self.start_rank(rank, 3, port, model, "--resume", preexec_fn=limit if rank == 1 else None,
                                 restore_signals=rank != 1)  # SIGXFSZ stays ignored, as in Python
                 for rank in range(3)]
        self.assertRegex(self.line(ranks[1]), r"^cannot write .*/tables/.*/00001/.*: File too large")
        for rank in (0, 2):
            self.assertRegex(self.line(ranks[rank]), rf"^rank 1 \(host {HOST}\): cannot write .*: File too large")
        self.assertEqual([path.name for path in model.glob("model.ckpt-*")], ["model.ckpt-3"])
        self.expect_whole(model)
        self.resume(model)

    def test_a_full_disk(self):
        model = self.folder / "full"
        model.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", model], capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount a small tmpfs")
        self.addCleanup(subprocess.run, ["umount", "-l", model], check=True)
        job = self.launch(3, model, *ENDLESS, "--set", "train_config.keep_checkpoint_max=0")
        self.assertEqual(job.wait(), 1)
        lines = [line for line in job.errors if "No space left on device" in line]
        self.assertGreaterEqual(len(lines), 3, job.errors)
        self.expect_whole(model)
        self.assertTrue(list(model.glob("model.ckpt-*")))

    def test_a_folder_that_ranks_do_not_share(self):
        model = self.folder / "unshared"
        model.mkdir()
        port = free_port()
        own = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(model), EMBLEM]
        if subprocess.run([*own[:-1], "true"], capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount a folder")
        for options in ((), ("--resume",)):
            ranks = [self.start_rank(rank, 3, port, model, *options, program=own if rank == 2 else (EMBLEM,))
                     for rank in range(3)]
            for rank in ranks:
                self.assertEqual(self.line(rank), f"rank 2 (host {HOST}) does not see what rank 0 (host {HOST}) writes into "
                                 f"{model}; model_dir must be a folder that all ranks share, as on a network file system")
            self.assertEqual(list(model.iterdir()) if not options else [], [])
            self.succeed(run(*self.command(model, "--max-steps", 3, *options)))


class UnequalTest(FaultCase):

    def test_other_options(self):
        port = free_port()
        ranks = [self.start_rank(rank, 3, port, self.folder / "options", "--set", f"train_config.seed={rank // 2}")
                 for rank in range(3)]
        for rank in ranks:
            self.assertRegex(self.line(rank), r"^rank 2 \(host .*\) has a configuration with hash \d+, rank 0 .* has \d+; "
                             "start all ranks with the same pipeline and options")
        self.assertFalse((self.folder / "options").exists())

    def test_a_configuration_that_one_rank_does_not_have(self):
        for victim in (0, 2):
            port = free_port()
            since = time.monotonic()
            ranks = [self.start_rank(rank, 3, port, self.folder / "none", config="none.config" if rank == victim else None)
                     for rank in range(3)]
            for number, rank in enumerate(ranks):
                name = "" if number == victim else rf"rank {victim} \(host .*\): "
                self.assertRegex(self.line(rank), f"^{name}.*none.config")
            self.assertLess(max(rank.ended for rank in ranks) - since, SOON)

    def refuse_other_data(self, name, change, message):
        """Rank 1 sees another file at the same path."""
        other = self.folder / f"other-{name}"
        other.mkdir()
        files = sorted((self.data / "train").iterdir())
        (other / "part").write_bytes(change(files[0].read_bytes()))
        own = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', str(other / "part"), str(files[0]),
               EMBLEM]
        if subprocess.run([*own[:-1], "true"], capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount a folder")
        port = free_port()
        model = self.folder / f"data-differs-{name}"
        ranks = [self.start_rank(rank, 2, port, model, program=own if rank == 1 else (EMBLEM,)) for rank in range(2)]
        for rank in ranks:
            self.assertRegex(self.line(rank), r"^rank 1 \(host .*\) has \d+ files? with \d+ bytes in .*/train, rank 0 \(host "
                             rf".*\) has \d+ files? with \d+ bytes{message}; give all ranks the same data")
        self.assertFalse(model.exists())

    def test_other_data(self):
        self.refuse_other_data("size", lambda content: content[:-100], "")

    def test_other_data_of_the_same_size(self):
        def swap_digit(content, at):
            at = content.index(b"1", at)
            return content[:at] + b"0" + content[at + 1:]
        for name, at in (("begin", 0), ("end", -5000)):
            with self.subTest(name):
                self.refuse_other_data(name, lambda content: swap_digit(content, at % len(content)),
                                       " of other names, sizes or content")


class BadDataTest(FaultCase):
    """Data of which one rank has the bad row."""

    def changed_data(self, name, change):
        """A config whose training data has one row changed, in the middle of the last file."""
        folder = self.folder / name
        (folder / "train").mkdir(parents=True)
        files = sorted((self.data / "train").iterdir())
        for path in files:
            lines = path.read_text().splitlines()
            if path == files[-1]:
                lines[len(lines) // 2] = change(lines[len(lines) // 2])
            (folder / "train" / path.name).write_text("\n".join(lines) + "\n")
        text = pathlib.Path(self.config).read_text().replace(f"{self.data}/train", f"{folder}/train")
        return self.write_config(name + ".config", text)

    def lines_of(self, model, config, *options):
        """The last lines of 3 ranks, which fail."""
        port = free_port()
        ranks = [self.start_rank(rank, 3, port, self.folder / model, *options, config=config) for rank in range(3)]
        return [self.line(rank) for rank in ranks]

    def expect_line_of_one_rank(self, lines, pattern):
        own = [line for line in lines if not line.startswith("rank ")]
        self.assertEqual(len(own), 1, lines)
        self.assertRegex(own[0], pattern)
        owner = lines.index(own[0])
        self.assertEqual([line for line in lines if line != own[0]], [f"rank {owner} (host {HOST}): {own[0]}"] * 2)

    def test_a_bad_row(self):
        config = self.changed_data("bad-row", lambda line: "not a label" + line)
        self.expect_line_of_one_rank(self.lines_of("bad-row-model", config), r"bad-row/train/.*:\d+: column label")

    def test_bad_rows_of_the_evaluation(self):
        rows = next((self.data / "test").iterdir()).read_text().splitlines()
        for bad in (500, 4500):
            rows[bad] = "x" + rows[bad]
        (self.folder / "bad-test").mkdir()
        (self.folder / "bad-test" / "part.tsv").write_text("\n".join(rows) + "\n")
        text = pathlib.Path(self.config).read_text().replace(f"{self.data}/test", f"{self.folder}/bad-test")
        config = self.write_config("bad-test.config", text)
        self.expect_line_of_one_rank(self.lines_of("bad-test-model", config), r"bad-test/part.tsv:\d+: column label")
        # Each stream has fewer than are allowed, all together have more.
        lines = self.lines_of("bad-test-model", config, "--resume", "--set", "data_config.max_bad_rows=1")
        self.assertEqual(len(set(lines)), 1, lines)
        self.assertRegex(lines[0], "^2 rows cannot be read in .*/bad-test, data_config.max_bad_rows allows 1")

    def test_a_loss_that_is_not_finite(self):
        """All ranks say what one of them knows of its rows."""
        text = pathlib.Path(self.config).read_text().replace('normalizer: "method=log,offset=3"', "")
        config = self.write_config("raw.config", text)
        lines = self.lines_of("not-finite", config, "--set", "train_config.dense_optimizer={sgd_optimizer {lr: 1e30}}")
        self.assertEqual(len(set(lines)), 1, lines)
        self.assertRegex(lines[0], r"^the loss is (nan|inf) at step \d+ .* largest mean magnitude are I")


class LinkTest(RankTraining, HostsCase):
    """Ranks on three hosts."""

    @classmethod
    def setUpClass(cls):
        HostsCase.setUpClass.__func__(cls)
        RankTraining.setUpClass.__func__(cls)

    @classmethod
    def tearDownClass(cls):
        RankTraining.tearDownClass.__func__(cls)
        HostsCase.tearDownClass.__func__(cls)

    def start_hosts(self, model, *options):
        return [self.start_on(number, *self.command(model, *options)) for number in range(3)]

    def test_a_link_that_is_cut(self):
        model = self.folder / "cut"
        ranks = self.start_hosts(model, *ENDLESS)
        self.assertTrue(becomes_true(lambda: latest_manifest(model) or any(rank.ended for rank in ranks)))
        since = time.monotonic()
        self.cut_link()
        lines = {self.line(rank) for rank in ranks}
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines.pop(), r"^rank [12] \(host [bc]\): connection lost: ")
        self.assertLess(max(rank.ended for rank in ranks) - since, 60)
        self.expect_whole(model)

    def test_a_slow_link(self):
        self.on_host("c", "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "4mbit", "burst", "16kb", "latency",
                     "200ms")
        self.addCleanup(self.on_host, "c", "tc", "qdisc", "del", "dev", "eth0", "root")
        model = self.folder / "slow"
        ranks = self.start_hosts(model)
        self.assertEqual([rank.wait() for rank in ranks], [0, 0, 0], [rank.errors for rank in ranks])
        self.assertEqual(self.learned(model), self.undisturbed())

    def on_host(self, host, *command):
        done = subprocess.run(["ip", "netns", "exec", f"{self.prefix}-{host}", *command], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"no slow links here: {done.stderr}")


if __name__ == "__main__":
    unittest.main()
