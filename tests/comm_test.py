"""Ranks as processes: how they are started, and what they say when one of them fails."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from random import Random

from harness import CLEAN, EMBLEM, becomes_true, require_mpirun, run, tcp_connections
from ranks import LONG, HostsCase, Rank, free_port, torchrun_variables

ENDLESS = ["--seconds", "3600", "--sizes", "65536", "--collectives", "exchange"]
SHORT = ["--seconds", "0.01", "--sizes", "8,100000"]


class CommTest(unittest.TestCase):

    def setUp(self):
        self.ranks = []

    def tearDown(self):
        for rank in self.ranks:
            rank.kill()

    def start(self, variables, *options):
        self.ranks.append(Rank(variables, "bench", "comm", *options))
        return self.ranks[-1]

    def start_job(self, size, *options, port=None):
        port = port or free_port()
        return [self.start(torchrun_variables(rank, size, port), *(options or ENDLESS)) for rank in range(size)]

    def wait_until_connected(self, ranks):
        # Control and data: rank 0 has two connections with every other rank, and those of the floor's ring.
        size = len(ranks)
        self.assertTrue(becomes_true(lambda: all(tcp_connections(rank.process.pid) >= size + 2 for rank in ranks)))

    def expect_failure(self, ranks, line, within):
        """All of `ranks` end with status 1 and one line soon after now; returns the seconds."""
        start = time.monotonic()
        for rank in ranks:
            self.assertRegex(rank.message(), line)
            self.assertEqual(rank.process.returncode, 1)
        took = max(rank.ended for rank in ranks) - start
        self.assertLess(took, within)
        return took

    def test_all_launchers(self):
        host = socket.gethostname()
        port = str(free_port())
        size = 3
        launchers = {
            "torchrun": lambda r: torchrun_variables(r, size, port),
            "openmpi": lambda r: {"OMPI_COMM_WORLD_RANK": str(r), "OMPI_COMM_WORLD_SIZE": str(size),
                                  "OMPI_COMM_WORLD_LOCAL_SIZE": str(size), "PMIX_NAMESPACE": f"job-{port}"},
            "mpich": lambda r: {"PMI_RANK": str(r), "PMI_SIZE": str(size), "MASTER_ADDR": "localhost",
                                "MASTER_PORT": port},
            "slurm": lambda r: {"SLURM_PROCID": str(r), "SLURM_STEP_NUM_TASKS": str(size), "SLURM_JOB_ID": port,
                                "SLURM_STEP_NODELIST": host, "MASTER_ADDR": "127.0.0.1"},
        }
        for name, variables in launchers.items():
            with self.subTest(launcher=name):
                ranks = [self.start(variables(r), *SHORT) for r in range(size)]
                self.assertEqual([rank.wait() for rank in ranks], [0] * size, [rank.errors for rank in ranks])
                self.assertIn("tcp, 3 ranks", ranks[0].output)
                self.assertEqual([rank.output for rank in ranks[1:]], ["", ""])

    def test_options_instead_of_variables(self):
        for option in ("--rendezvous", "--meet"):  # the old name works, too
            with self.subTest(option=option):
                address = f"localhost:{free_port()}"
                ranks = [self.start({}, *SHORT, "--rank", str(r), "--world", "2", option, address) for r in range(2)]
                self.assertEqual([rank.wait() for rank in ranks], [0, 0], [rank.errors for rank in ranks])

    def test_the_old_name_of_an_option_is_hidden(self):
        shown = run("bench", "comm", "--help").stdout
        self.assertIn("--rendezvous HOST:PORT", shown)
        self.assertNotIn("--meet", shown)
        both = run("bench", "comm", "--rank", "0", "--world", "2", "--meet", "a:1", "--rendezvous", "a:1", env=CLEAN)
        self.assertEqual(both.returncode, 2)
        self.assertIn("--rendezvous excludes --meet", both.stderr)

    def test_results_are_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "comm.json")
            done = run("bench", "comm", "--ranks", "1,2", *SHORT, "--json", path, env=CLEAN)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path) as file:
                results = json.load(file)
        names = [result["name"] for result in results]
        self.assertIn("threads-1-exchange-8", names)
        self.assertIn("tcp-2-sum_all-100000", names)
        self.assertIn("tcp-2-barrier", names)
        for result in results:
            self.assertGreater(result["metrics"]["seconds"]["value"], 0)
            if result["name"].startswith("tcp-2-"):
                self.assertGreater(result["shares"]["of loopback"], 0)

    def test_a_killed_rank_ends_all_at_once(self):
        for victim in (0, 2):
            with self.subTest(victim=victim):
                ranks = self.start_job(3)
                self.wait_until_connected(ranks)
                ranks[victim].process.send_signal(signal.SIGKILL)
                others = [rank for rank in ranks if rank is not ranks[victim]]
                # Noticed at once; the limit allows for a busy machine.
                self.expect_failure(others, rf"^rank {victim} \(host .+\): connection closed", within=10)

    def test_kills_at_random_moments_never_leave_a_rank_waiting(self):
        chance = Random(5)
        for job in range(8):
            with self.subTest(job=job):
                ranks = self.start_job(3, *ENDLESS, "--join-seconds", "5")
                victim = chance.randrange(3)
                time.sleep(chance.choice([0, 0.02, 0.05, 0.1, 0.5]))  # any moment is as good: none is waited for
                ranks[victim].process.kill()
                for rank in ranks:
                    rank.wait()
                    if rank is not ranks[victim]:
                        self.assertEqual(rank.process.returncode, 1)
                        self.assertRegex(rank.message(), rf"rank {victim}\b")

    def test_a_stopped_rank_is_noticed_by_its_silence(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                ranks = self.start_job(3)
                self.wait_until_connected(ranks)
                ranks[victim].process.send_signal(signal.SIGSTOP)
                others = [rank for rank in ranks if rank is not ranks[victim]]
                took = self.expect_failure(others, rf"^rank {victim} \(host .+\): no heartbeat for 9 s", within=30)
                self.assertGreater(took, 5)
                ranks[victim].process.send_signal(signal.SIGCONT)
                self.assertEqual(ranks[victim].wait(), 1)
                self.assertEqual(len(ranks[victim].errors), 1)

    def test_an_interrupted_rank_tells_the_others(self):
        ranks = self.start_job(2, "--seconds", "5", "--sizes", "8")
        self.wait_until_connected(ranks)
        ranks[1].process.send_signal(signal.SIGINT)
        self.assertRegex(ranks[0].message(), r"^rank 1 \(host .+\): bench comm: interrupted")
        self.assertEqual(ranks[1].wait(), 130)

    def test_other_options_are_refused_on_all_ranks(self):
        port = free_port()
        ranks = [self.start(torchrun_variables(0, 2, port), *ENDLESS),
                 self.start(torchrun_variables(1, 2, port), *SHORT)]
        for rank in ranks:
            self.assertIn("start all ranks with the same pipeline and options", rank.message())
            self.assertRegex(rank.message(), r"rank 1 \(host .+\) has a configuration with hash \d+, rank 0")

    def test_a_missing_rank_is_named_on_all_ranks(self):
        port = free_port()
        ranks = [self.start(torchrun_variables(r, 3, port), *ENDLESS, "--join-seconds", "3") for r in range(2)]
        for rank in ranks:
            self.assertRegex(rank.message(), r"^rank 2 of 3 did not join rank 0 \(host .+\) at 127.0.0.1:\d+ within 3 s")

    def test_a_port_in_use(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            rank = self.start(torchrun_variables(0, 2, other.getsockname()[1]), *ENDLESS)
            self.assertRegex(rank.message(), "Address already in use; choose another port")

    def test_garbage_at_the_port_does_not_matter(self):
        port = free_port()
        zero = self.start(torchrun_variables(0, 2, port), *SHORT)
        strangers = []

        def connects():
            try:
                strangers.append(socket.create_connection(("127.0.0.1", port), timeout=10))
                return True
            except OSError:
                return False
        self.assertTrue(becomes_true(connects))
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 5000, b"EMBLEM.2" + b"\xff" * 100, b"EMB"):
            strangers[-1].sendall(garbage)
            self.assertTrue(becomes_true(connects))
        one = self.start(torchrun_variables(1, 2, port), *SHORT)
        self.assertEqual([zero.wait(), one.wait()], [0, 0], zero.errors + one.errors)
        self.assertIn("ignored a connection from 127.0.0.1: not a message of a rank", "\n".join(zero.errors))
        for stranger in strangers:
            stranger.close()

    def test_a_rank_without_the_secret_cannot_end_the_job(self):
        port, secret = free_port(), {"EMBLEM_JOB_SECRET": "s"}
        zero = self.start({**torchrun_variables(0, 2, port), **secret}, *SHORT)
        for other in ({}, {"EMBLEM_JOB_SECRET": "t"}):
            stranger = self.start({**torchrun_variables(1, 2, port), **other}, *SHORT)
            self.assertIn("EMBLEM_JOB_SECRET", stranger.message())
        one = self.start({**torchrun_variables(1, 2, port), **secret}, *SHORT)
        self.assertEqual([zero.wait(), one.wait()], [0, 0], zero.errors + one.errors)

    def test_bad_variables_are_one_line(self):
        for variables, message in (({"RANK": "0", "WORLD_SIZE": "two"}, 'WORLD_SIZE is "two"'),
                                   ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "x"}, "rank 2 of 2"),
                                   ({"RANK": "0", "WORLD_SIZE": "2"}, "no MASTER_ADDR"),
                                   ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4",
                                     "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "set MASTER_ADDR")):
            with self.subTest(variables=variables):
                rank = self.start(variables, *SHORT, "--transport", "tcp")
                self.assertIn(message, rank.message())


class HostsTest(HostsCase):

    def start(self, *options):
        self.ranks = [self.start_on(number, "bench", "comm", *options) for number in range(3)]
        return self.ranks

    def wait_until_traffic(self):
        """Waits until ranks 1 and 2 have exchanged data for a while."""
        def received(host):
            done = subprocess.run(["ip", "-n", f"{self.prefix}-{host}", "-j", "-s", "link", "show", "eth0"],
                                  capture_output=True, text=True, check=True)
            return json.loads(done.stdout)[0]["stats64"]["rx"]["bytes"]
        first = {host: received(host) for host in self.hosts}
        self.assertTrue(becomes_true(lambda: all(received(host) > first[host] + 20e6 for host in self.hosts)
                                     or any(rank.ended for rank in self.ranks)))
        self.assertEqual([rank.errors for rank in self.ranks], [[], [], []])

    def test_several_hosts(self):
        ranks = self.start(*SHORT)
        self.assertEqual([rank.wait() for rank in ranks], [0, 0, 0], [rank.errors for rank in ranks])
        self.assertIn("tcp, 3 ranks, hosts: 3", ranks[0].output)

    def test_a_host_that_is_cut_off(self):
        ranks = self.start(*ENDLESS)
        self.wait_until_traffic()
        start = time.monotonic()
        self.ip("-n", self.bridge, "link", "set", "to-c", "down")
        self.addCleanup(self.ip, "-n", self.bridge, "link", "set", "to-c", "up")
        for rank in ranks[:2]:
            self.assertRegex(rank.message(), r"^rank 2 \(host c\): (no heartbeat for 9 s|connection lost)")
        self.assertRegex(ranks[2].message(), r"^rank [01] \(host [ab]\): (no heartbeat for 9 s|connection lost)")
        self.assertLess(max(rank.ended for rank in ranks) - start, 40)

    def test_a_link_between_two_hosts_that_is_cut(self):
        ranks = self.start(*ENDLESS)
        self.wait_until_traffic()
        start = time.monotonic()
        self.cut_link()
        for rank in ranks:
            self.assertRegex(rank.message(), r"^rank [12] \(host [bc]\): connection lost: ")
        self.assertEqual(len({rank.message() for rank in ranks}), 1)
        self.assertLess(max(rank.ended for rank in ranks) - start, 60)


class MpiTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        require_mpirun()

    # As in containers: root, more ranks than cores.
    variables = {**CLEAN, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                 "OMPI_MCA_rmaps_base_oversubscribe": "1"}

    def mpirun(self, size, *options, program=(EMBLEM, "bench", "comm"), **variables):
        return subprocess.run(["mpirun", "-n", str(size), *program, *options], capture_output=True, text=True,
                              timeout=300, env={**self.variables, **variables})

    def test_ranks_of_mpirun_over_mpi_and_tcp(self):
        for transport in ("mpi", "tcp"):
            for size in (1, 2, 3):
                with self.subTest(transport=transport, size=size):
                    done = self.mpirun(size, "--transport", transport, *SHORT)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout.count(" ranks, hosts: 1"), 1, done.stdout)

    def test_the_bodies_of_all_transports(self):
        program = os.path.join(os.path.dirname(os.path.abspath(EMBLEM)), "comm_test")
        if not os.path.exists(program):
            self.skipTest("comm_test was not built")
        for size in (1, 2, 3, 4):
            with self.subTest(size=size):
                done = self.mpirun(size, "--gtest_filter=*CommunicatorTest*/mpi-*4GiB*", "--gtest_color=no", program=[program])
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("Running 15 tests", done.stdout)
                self.assertNotIn("SKIPPED", done.stdout)

    def test_a_killed_rank_ends_the_job(self):
        job = subprocess.Popen(["mpirun", "-n", "3", EMBLEM, "bench", "comm", "--transport", "mpi", *ENDLESS],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.variables)
        self.addCleanup(job.kill)
        ranks = []

        def started():
            with open(f"/proc/{job.pid}/task/{job.pid}/children") as children:
                ranks[:] = [int(child) for child in children.read().split()]
            return len(ranks) == 3
        self.assertTrue(becomes_true(started))
        os.kill(ranks[1], signal.SIGKILL)
        _, errors = job.communicate(timeout=LONG)
        self.assertNotEqual(job.returncode, 0)
        # The launcher may see the others end first, which notice the closed connection.
        self.assertRegex(errors, "signal 9|non-zero exit code")

    def test_a_module_that_is_missing(self):
        done = self.mpirun(2, "--transport", "mpi", *SHORT, EMBLEM_MPI_MODULE="/nowhere/libemblem_mpi.so")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cannot load /nowhere/libemblem_mpi.so", done.stderr)

    def test_a_launcher_of_another_mpi_is_refused(self):
        """mpiexec of MPICH says 2 ranks, the module's MPI knows of none: it would be rank 0 of 1 twice."""
        done = subprocess.run([EMBLEM, "bench", "comm", "--transport", "mpi", *SHORT], capture_output=True, text=True,
                              timeout=300, env={**CLEAN, "PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("the launcher says rank 1 of 2, MPI says rank 0 of 1", done.stderr)

    def test_mpi_without_mpirun(self):
        done = run("bench", "comm", "--transport", "mpi", env=CLEAN)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--transport mpi needs mpirun", done.stderr)


if __name__ == "__main__":
    unittest.main()
