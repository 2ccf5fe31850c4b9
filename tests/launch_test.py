"""emblem launch: output, failures, restarts, hosts by ssh. Ssh is a script that runs the command on this machine."""

import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from harness import CLEAN, EMBLEM, EmblemTest, becomes_true, files_of, run, tcp_connections
from ranks import HOST, LONG, Launched, is_alive

COMM = ["bench", "comm", "--seconds", "0.01", "--sizes", "8"]
ENDLESS = ["bench", "comm", "--seconds", "3600", "--sizes", "65536", "--collectives", "exchange"]

FAKE_SSH = """#!/bin/sh
# As ssh does: another environment, another folder, a process that is not a child of the caller.
host=$1; shift
case $host in gone*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255;; esac
cd /
env -i PATH="$PATH" HOME=/ FAKE_HOST="$host" setsid -w sh -c "$*"
exit $?
"""

STRANGE = ["", " ", "a b", "it's", '"x"', "$HOME", "`date`", "\\n", "a\nb", "*", "[a,b]", "--", "{}", "%%", "#", "~", "&", "é"]


class LaunchCase(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-launch-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.ssh = self.folder / "ssh"
        self.ssh.write_text(FAKE_SSH)
        self.ssh.chmod(0o755)

    def start(self, *arguments, **kwargs):
        job = Launched(*arguments, **kwargs)
        self.addCleanup(job.kill)
        return job

    def start_script(self, script, *options, **kwargs):
        """Ranks that run a shell script; $DIR is a folder of this test."""
        text = f"DIR={shlex.quote(str(self.folder))}\n{script}"
        return self.start(*options, "--program", "sh", "--", "-c", text, **kwargs)

    def finish(self, job, status=0):
        self.assertEqual(job.wait(), status, job.lines + job.errors)
        return job

    def own_lines(self, job):
        return [line for line in job.errors if line.startswith("emblem: ")]

    def pids(self, count):
        """Process ids that ranks have written to $DIR/pid-NAME, when `count` are there."""
        self.assertTrue(becomes_true(lambda: len(list(self.folder.glob("pid-*"))) == count))
        return [int(path.read_text()) for path in self.folder.glob("pid-*")]

    def connected_ranks(self, job):
        """Process ids of the 3 ranks of an endless benchmark, by rank, when all are connected (see comm_test.py)."""
        self.assertTrue(becomes_true(lambda: len(job.ranks()) == 3 and
                                     all(tcp_connections(pid) >= 5 for pid in job.ranks().values())))
        return [pid for _, pid in sorted(job.ranks().items())]

    def expect_all_end(self, pids):
        self.assertTrue(becomes_true(lambda: not any(map(is_alive, pids))), pids)


# Writes a process id so that it appears whole; waits until it is ended.
WRITE_PID = 'note() { echo $2 > "$DIR/new-$1"; mv "$DIR/new-$1" "$DIR/pid-$1"; }\n'
WAIT = 'while :; do sleep 0.05; done'


class LocalTest(LaunchCase):

    def test_ranks_work_together(self):
        job = self.finish(self.start("--ranks", 3, "--", *COMM))
        self.assertIn("tcp, 3 ranks, hosts: 1", job.lines[0])
        self.assertEqual([line for line in job.lines if line.startswith("rank ")], [])
        self.assertEqual(job.errors, [])

    def test_one_rank(self):
        job = self.finish(self.start("--ranks", 1, "--", "train", "--help"))
        self.assertIn("--config", "\n".join(job.lines))

    def test_variables_of_other_launchers_do_not_matter(self):
        other = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "7", "PMI_RANK": "3", "PMI_SIZE": "9",
                 "TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_PORT": "1"}
        job = self.finish(self.start("--ranks", 2, "--", *COMM, env={**CLEAN, **other}))
        self.assertIn("tcp, 2 ranks, hosts: 1", job.lines[0])

    def test_every_rank_has_its_variables_and_its_share_of_cpus(self):
        job = self.finish(self.start_script("echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $EMBLEM_RESTART",
                                            "--ranks", 2))
        self.assertEqual(sorted(job.lines), ["0 2 0 2 127.0.0.1 0", "rank 1: 1 2 1 2 127.0.0.1 0"])
        share = str(max(1, len(os.sched_getaffinity(0)) // 2))
        for given, threads in (({}, share), ({"EMBLEM_THREADS": "5"}, "5")):
            job = self.finish(self.start_script("echo $EMBLEM_THREADS $OMP_NUM_THREADS", "--ranks", 2,
                                                env={**CLEAN, **given}))
            self.assertEqual(sorted(job.lines), [f"{threads} {share}", f"rank 1: {threads} {share}"])

    def test_the_ranks_of_a_job_share_a_secret(self):
        secrets = []
        for given in ({}, {}, {"EMBLEM_JOB_SECRET": "chosen"}):
            job = self.finish(self.start_script("echo $EMBLEM_JOB_SECRET", "--ranks", 2, env={**CLEAN, **given}))
            zero, one = sorted(job.lines)
            self.assertEqual(one, f"rank 1: {zero}")
            secrets.append(zero)
        self.assertRegex(secrets[0], "^[0-9a-f]{64}$")
        self.assertNotEqual(secrets[0], secrets[1])
        self.assertEqual(secrets[2], "chosen")

    def test_lines_are_prefixed_and_never_torn(self):
        script = """i=0
while [ $i -lt 200 ]; do
  i=$((i+1)); printf "one $i "; printf "two\\n"; { printf "error $i "; printf "end\\n"; } >&2
done
printf last"""
        job = self.finish(self.start_script(script, "--ranks", 3))
        for lines, text in ((job.lines, "one {} two"), (job.errors, "error {} end")):
            for rank, prefix in enumerate(("", "rank 1: ", "rank 2: ")):
                expected = [prefix + text.format(i) for i in range(1, 201)]
                found = [line for line in lines if line in set(expected)]
                self.assertEqual(found, expected)
        self.assertEqual(len(job.errors), 600)
        self.assertEqual(sorted(line for line in job.lines if "last" in line), ["last", "rank 1: last", "rank 2: last"])
        self.assertEqual(len(job.lines), 603)

    def test_rank_0_has_the_terminal_of_the_launcher(self):
        own, terminal = os.openpty()
        self.addCleanup(os.close, own)
        process = subprocess.Popen(
            [EMBLEM, "launch", "--ranks", "2", "--program", "sh", "--", "-c",
             "if [ -t 2 ]; then echo $RANK: terminal; else echo $RANK: none; fi >&2"], stderr=terminal, env=CLEAN)
        os.close(terminal)
        text = b""
        try:
            while piece := os.read(own, 1000):
                text += piece
        except OSError:  # the end
            pass
        self.assertEqual(process.wait(LONG), 0)
        self.assertEqual(sorted(text.decode().split("\r\n")), ["", "0: terminal", "rank 1: 1: none"])

    def test_a_slow_reader_does_not_keep_signals_waiting(self):
        process = subprocess.Popen([EMBLEM, "launch", "--ranks", "2", "--program", "sh", "--", "-c",
                                    "trap 'exit 7' INT; while :; do echo 12345678901234567890; done"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=CLEAN)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        process.stdout.read(100000)  # then nothing is read for a while
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        rest = threading.Thread(target=process.stdout.read, daemon=True)
        rest.start()
        self.assertEqual(process.wait(LONG), 130)
        rest.join(LONG)

    def test_logs_of_all_ranks(self):
        logs = self.folder / "a folder/logs"
        job = self.finish(self.start_script("echo out $RANK; echo error $RANK >&2", "--ranks", 2, "--log-dir", logs))
        self.assertEqual(sorted(path.name for path in logs.iterdir()), ["rank-0.log", "rank-1.log"])
        for rank in (0, 1):
            self.assertEqual(sorted((logs / f"rank-{rank}.log").read_text().splitlines()), [f"error {rank}", f"out {rank}"])
        self.assertIn("out 0", job.lines)

    def test_strange_arguments_are_passed_on(self):
        job = self.finish(self.start("--ranks", 1, "--program", "printf", "--", "%s|", *STRANGE))
        self.assertEqual("\n".join(job.lines), "".join(word + "|" for word in STRANGE))

    def test_bad_options_are_one_line(self):
        for options, message in ((["--ranks", "0", "--", "x"], "--ranks"),
                                 (["--ranks", "two", "--", "x"], "two is not a whole number"),
                                 (["--", "x"], "give --ranks N or --hosts"),
                                 (["--ranks", "2"], "no command is given"),
                                 (["--ranks", "2", "--"], "no command is given"),
                                 (["--ranks", "2", "--hosts", "a:3", "--", "x"], "--hosts has 3 ranks"),
                                 (["--hosts", "a b", "--", "x"], "is not a host"),
                                 (["--ranks", "2", "--least-ranks", "3", "--restarts", "1", "--", "x"], "more than the 2 ranks"),
                                 (["--ranks", "2", "--least-ranks", "1", "--", "x"], "--least-ranks needs --restarts"),
                                 (["--ranks", "2", "--restarts", "-1", "--", "x"], "--restarts"),
                                 (["--ranks", "2", "--rendezvous", "here", "--", "x"], '--rendezvous is "here"'),
                                 (["--ranks", "2", "--rendezvous", "here:x", "--", "x"], "the port of --rendezvous"),
                                 (["--ranks", "2", "--meet", "here", "--", "x"], '--rendezvous is "here"'),
                                 (["--ranks", "2", "--rendezvous", "here:0", "--", "x"], "from 1 to 65535"),
                                 (["--hosts", "a", "--ssh", " ", "--", "x"], "--ssh is empty"),
                                 (["--ranks", "2", "--program", "no-such-program", "--", "x"],
                                  "cannot start no-such-program: No such file"),
                                 (["--ranks", "2", "--log-dir", "/proc/none", "--", "x"], "cannot write /proc/none/rank-0.log"),
                                 (["--supervise"], "standard input ended before the command")):
            with self.subTest(options=options):
                done = run("launch", *options, env=CLEAN, stdin=subprocess.DEVNULL)
                self.assertIn(done.returncode, (1, 2))
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(message, done.stderr)


class FailureTest(LaunchCase):

    def test_a_failing_rank_is_named(self):
        script = '[ $RANK != 2 ] || exit 3\ntrap "exit 0" TERM; ' + WAIT
        job = self.finish(self.start_script(script, "--ranks", 3, "--end-seconds", "0.1"), 1)
        self.assertEqual(job.errors[-1], f"emblem: rank 2 of 3 (host {HOST}): exit status 3")

    def test_a_killed_rank_is_named_though_the_others_end_as_well(self):
        for victim in (0, 2):
            with self.subTest(victim=victim):
                job = self.start("--ranks", 3, "--", *ENDLESS)
                pids = self.connected_ranks(job)
                os.kill(job.ranks()[victim], signal.SIGKILL)
                self.finish(job, 1)
                self.assertEqual(job.errors[-1], f"emblem: rank {victim} of 3 (host {HOST}): killed by signal 9 (Killed)")
                self.expect_all_end(pids)

    def test_a_stopped_rank_is_named(self):
        job = self.start("--ranks", 3, "--end-seconds", "0.5", "--", *ENDLESS)
        pids = self.connected_ranks(job)
        os.kill(job.ranks()[1], signal.SIGSTOP)
        self.finish(job, 1)
        self.assertEqual(job.errors[-1], f"emblem: rank 1 of 3 (host {HOST}): did not end after another rank failed, "
                                        "and was stopped")
        self.expect_all_end(pids)

    def test_ranks_that_do_not_end_are_killed(self):
        script = WRITE_PID + 'trap "" TERM\nnote $RANK $$\n[ $RANK != 0 ] || { read go < "$DIR/go"; exit 1; }\n' + WAIT
        os.mkfifo(self.folder / "go")
        job = self.start_script(script, "--ranks", 2, "--end-seconds", "0")
        pids = self.pids(2)
        (self.folder / "go").write_text("\n")
        self.finish(job, 1)
        self.expect_all_end(pids)
        self.assertEqual(job.errors[-1], f"emblem: rank 0 of 2 (host {HOST}): exit status 1")

    def test_what_a_rank_started_ends_with_it(self):
        script = WRITE_PID + 'sleep 3600 &\nnote $RANK $!\n'
        self.finish(self.start_script(script, "--ranks", 2))
        self.expect_all_end(self.pids(2))

    def test_ranks_end_with_a_launcher_that_is_killed(self):
        for hosts in (["--ranks", 2], ["--hosts", "a,b", "--ssh", str(self.ssh)]):
            with self.subTest(hosts=hosts):
                for path in self.folder.glob("pid-*"):
                    path.unlink()
                job = self.start_script(WRITE_PID + "sleep 3600 &\nnote child-$RANK $!\nnote $RANK $$\n" + WAIT, *hosts)
                pids = self.pids(4)
                job.process.kill()
                self.expect_all_end(pids)

    def test_an_interruption_is_passed_on_once(self):
        for request, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(signal=request):
                for path in self.folder.glob("pid-*"):
                    path.unlink()
                script = WRITE_PID + ('count=0\ntrap "count=\\$((count+1))" INT TERM\nnote $RANK $$\n'
                                      'while [ $count = 0 ]; do sleep 0.05; done\n'
                                      'echo $RANK > "$DIR/saving-$RANK"\nread go < "$DIR/go-$RANK"\necho requests: $count')
                for rank in range(2):
                    if not (self.folder / f"go-{rank}").exists():
                        os.mkfifo(self.folder / f"go-{rank}")
                job = self.start_script(script, "--ranks", 2, "--end-seconds", "0", "--restarts", 3)
                self.pids(2)
                job.process.send_signal(request)
                self.assertTrue(becomes_true(lambda: len(list(self.folder.glob("saving-*"))) == 2))
                for rank in range(2):
                    (self.folder / f"go-{rank}").write_text("\n")
                    (self.folder / f"saving-{rank}").unlink()
                self.finish(job, status)
                self.assertEqual(sorted(job.lines), ["rank 1: requests: 1", "requests: 1"])

    def test_a_second_interruption_kills(self):
        for hosts in (["--ranks", 2], ["--hosts", "a,b", "--ssh", str(self.ssh)]):
            with self.subTest(hosts=hosts):
                for path in self.folder.glob("pid-*"):
                    path.unlink()
                script = WRITE_PID + 'trap "touch \\"$DIR/asked-$RANK\\"" INT\ntrap "" TERM\nnote $RANK $$\n' + WAIT
                job = self.start_script(script, *hosts)
                pids = self.pids(2)
                job.process.send_signal(signal.SIGINT)
                self.assertTrue(becomes_true(lambda: len(list(self.folder.glob("asked-*"))) == 2))
                job.process.send_signal(signal.SIGINT)
                self.finish(job, 130)
                self.expect_all_end(pids)
                for path in self.folder.glob("asked-*"):
                    path.unlink()

    def test_a_port_that_is_taken_is_no_failure(self):
        script = ('[ $RANK = 0 ] || exit 0\necho $MASTER_PORT >> "$DIR/ports"\n[ $(wc -l < "$DIR/ports") -ge 3 ] ||'
                  ' { echo "cannot listen on 127.0.0.1:$MASTER_PORT: Address already in use" >&2; exit 1; }')
        job = self.finish(self.start_script(script, "--ranks", 2))
        self.assertEqual(len((self.folder / "ports").read_text().split()), 3)
        self.assertEqual(sum("its port was taken; trying another one" in line for line in job.errors), 2)
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            address = f"127.0.0.1:{other.getsockname()[1]}"
            job = self.finish(self.start("--ranks", 2, "--rendezvous", address, "--end-seconds", "0", "--", *COMM), 1)
        self.assertIn("Address already in use; choose another port", "\n".join(job.errors))


    def test_output_that_cannot_be_written_ends_nothing(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([EMBLEM, "launch", "--ranks", "1", "--program", "sh", "--", "-c", "echo x; echo y >&2"],
                                  stdout=full, stderr=subprocess.PIPE, env=CLEAN, timeout=LONG)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"cannot write standard output: No space left on device; the rest is lost", done.stderr)
        self.assertIn(b"y\n", done.stderr)


class RestartTest(LaunchCase):

    def test_ranks_are_started_again_after_growing_pauses(self):
        script = 'echo $EMBLEM_RESTART; [ $RANK$EMBLEM_RESTART != 10 -a $RANK$EMBLEM_RESTART != 11 ] || kill -9 $$'
        logs = self.folder / "logs"
        job = self.finish(self.start_script(script, "--ranks", 2, "--restarts", 3, "--log-dir", logs))
        failed = f"emblem: warning: rank 1 of 2 (host {HOST}): killed by signal 9 (Killed)"
        lines = self.own_lines(job)
        self.assertEqual(lines[0], f"{failed}; restart 1 of 3 in 1 s")
        self.assertEqual(lines[2], f"{failed}; restart 2 of 3 in 2 s")
        for line, restart in ((lines[1], 1), (lines[3], 2)):
            seconds = re.fullmatch(rf"emblem: restart {restart}: 2 ranks, ([\d.]+) s after the failure", line)
            self.assertGreaterEqual(float(seconds[1]), restart)
        self.assertEqual(len(lines), 4)
        self.assertEqual((logs / "rank-0.log").read_text(), "0\n1\n2\n")

    def test_the_number_of_restarts_is_limited(self):
        job = self.finish(self.start_script("kill -9 $$", "--ranks", 1, "--restarts", 1), 1)
        self.assertEqual(job.errors[-1], f"emblem: rank 0 of 1 (host {HOST}): killed by signal 9 (Killed); failed after 1 restarts")

    def test_an_interruption_ends_the_pause(self):
        job = self.start_script("kill -9 $$", "--ranks", 1, "--restarts", 100)
        self.assertTrue(becomes_true(lambda: any("restart 3 of 100 in 4 s" in line for line in job.errors)))
        job.process.send_signal(signal.SIGTERM)
        self.finish(job, 143)

    def test_an_error_in_the_configuration_is_not_tried_again(self):
        for command, message in ((["train", "--config", "/none.config"], "all ranks ended with the same error"),
                                 (["train", "--no-such-option"], "its options are not valid"),
                                 (["bench", "comm", "--rank", "9", "--world", "2", "--rendezvous", "x:1"],
                                  "all ranks ended with the same error")):
            with self.subTest(command=command):
                job = self.finish(self.start("--ranks", 2, "--restarts", 3, "--", *command), 1)
                self.assertIn(f"; not restarted: {message}", job.errors[-1])
                self.assertNotIn("restart 1 of", "\n".join(job.errors))

    def test_a_rank_that_fails_twice_leaves(self):
        script = 'echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE; [ $RANK != 2 ] || kill -9 $$'
        job = self.finish(self.start_script(script, "--ranks", 3, "--restarts", 3, "--least-ranks", 2))
        self.assertIn(f"emblem: warning: rank 2 of 3 (host {HOST}) failed 2 times in a row and leaves the job; ranks left: 2",
                      job.errors)
        self.assertEqual(sorted(job.lines[-2:]), ["0 of 2, 0 of 2", "rank 1: 1 of 2, 1 of 2"])

    def test_ranks_of_a_real_job_work_together_again(self):
        job = self.start("--ranks", 3, "--restarts", 2, "--", *ENDLESS)
        first = self.connected_ranks(job)
        os.kill(first[1], signal.SIGKILL)
        self.assertTrue(becomes_true(lambda: not set(job.ranks().values()) & set(first)))
        self.connected_ranks(job)
        self.assertIn("emblem: restart 1: 3 ranks", "\n".join(job.errors))
        job.process.send_signal(signal.SIGTERM)
        self.finish(job, 143)


class HostsTest(LaunchCase):

    def hosts(self, hosts):
        return ["--hosts", hosts, "--ssh", str(self.ssh)]

    def test_ranks_on_hosts_work_together(self):
        job = self.finish(self.start(*self.hosts("127.0.0.1,me@127.0.0.2:2"), "--", *COMM))
        self.assertIn("tcp, 3 ranks, hosts: 1", job.lines[0])
        self.assertEqual(job.errors, [])

    def test_hosts_may_be_the_last_option(self):
        job = self.finish(self.start("--hosts", "localhost:2", "--", *COMM))
        self.assertIn("tcp, 2 ranks", job.lines[0])

    def test_this_machine_needs_no_ssh(self):
        job = self.finish(self.start_script('echo "$RANK $FAKE_HOST."', *self.hosts("localhost,b")))
        self.assertEqual(sorted(job.lines), ["0 .", "rank 1: 1 b."])

    def test_arguments_folder_and_variables_are_those_of_the_launcher(self):
        place = self.folder / "it's a $folder"
        place.mkdir()
        program = place / "program"
        program.write_text('#!/bin/sh\npwd\necho "$EMBLEM_WORD"\necho "${OTHER-none}"\n'
                           'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $OMP_NUM_THREADS\nprintf "%s|" "$@"')
        program.chmod(0o755)
        word = "'\"$x` \\"
        job = self.finish(self.start("--ranks", 2, *self.hosts("a"), "--program", program, "--", *STRANGE, cwd=place,
                                     env={**CLEAN, "EMBLEM_WORD": word, "OTHER": "not passed on"}))
        share = max(1, len(os.sched_getaffinity(0)) // 2)
        expected = [str(place), word, "none", f"0 2 0 2 a {share}"]
        expected += "".join(argument + "|" for argument in STRANGE).split("\n")
        self.assertEqual([line for line in job.lines if not line.startswith("rank 1: ")], expected)
        expected[3] = f"1 2 1 2 a {share}"
        self.assertEqual([line for line in job.lines if line.startswith("rank 1: ")], ["rank 1: " + line for line in expected])

    def test_long_commands_are_passed_on(self):
        words = [f"word-{i}" * 100 for i in range(1000)]
        job = self.finish(self.start(*self.hosts("a"), "--program", "printf", "--", "%s\\n", *words))
        self.assertEqual(job.lines, words)

    def test_a_program_that_is_not_there(self):
        job = self.finish(self.start(*self.hosts("a"), "--program", "no-such-program", "--", "x"), 1)
        self.assertEqual(job.errors, ["emblem: cannot start no-such-program: No such file or directory",
                                      "emblem: rank 0 of 1 (host a): exit status 1"])

    def test_how_a_remote_rank_failed(self):
        for end, how in (("exit 3", "exit status 3"), ("kill -9 $$", "killed by signal 9 (Killed)"),
                         ("exit 255", "exit status 255")):
            with self.subTest(end=end):
                script = f'[ $RANK != 1 ] || {{ {end}; }}\ntrap "exit 0" TERM; ' + WAIT
                job = self.finish(self.start_script(script, *self.hosts("a,b"), "--end-seconds", "0.1"), 1)
                self.assertEqual(job.errors[-1], f"emblem: rank 1 of 2 (host b): {how}")

    def test_remote_ranks_end_with_their_connection(self):
        script = WRITE_PID + 'trap "" INT\nsleep 3600 &\nnote child-$RANK $!\nnote $RANK $$\n' + WAIT
        job = self.start_script(script, *self.hosts("a,b"), "--end-seconds", "0")
        pids = self.pids(4)
        connection = next(child for child in job.children() if b"\0b\0" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes())
        os.kill(connection, signal.SIGKILL)
        self.finish(job, 1)
        self.assertEqual(job.errors[-1], "emblem: rank 1 of 2 (host b): killed by signal 9 (Killed)")
        self.expect_all_end(pids)

    def test_an_interruption_reaches_a_rank_whose_connection_is_made_later(self):
        go = self.folder / "go"
        self.ssh.write_text(FAKE_SSH.replace("cd /\n", f'trap "" INT\ntouch {self.folder}/pid-$host\n'
                                                      f"while [ ! -e {go} ]; do sleep 0.05; done\ncd /\n"))
        job = self.start_script(WAIT, *self.hosts("a,b"))
        self.assertTrue(becomes_true(lambda: len(list(self.folder.glob("pid-*"))) == 2))
        job.process.send_signal(signal.SIGINT)
        go.touch()
        self.finish(job, 130)

    def test_a_host_that_cannot_be_reached_is_named(self):
        job = self.finish(self.start_script(WAIT, *self.hosts("a,gone"), "--end-seconds", "0"), 1)
        self.assertEqual(job.errors[-1], f"emblem: cannot reach host gone: {self.ssh} ended with exit status 255")
        self.assertIn("rank 1: ssh: connect to host gone port 22: No route to host", job.errors)

    def test_a_host_that_cannot_be_reached_leaves(self):
        script = '[ $WORLD_SIZE = 2 ] || sleep 3600\necho "$RANK of $WORLD_SIZE at $FAKE_HOST, meeting at $MASTER_ADDR"'
        job = self.finish(self.start_script(script, *self.hosts("gone:2,b,c"), "--restarts", 1, "--least-ranks", 2,
                                            "--end-seconds", "0"))
        self.assertIn("emblem: warning: host gone cannot be reached and leaves the job; ranks left: 2", job.errors)
        self.assertEqual(sorted(job.lines), ["0 of 2 at b, meeting at b", "rank 1: 1 of 2 at c, meeting at b"])


class TrainTest(EmblemTest):
    """Training with restarts, compared with training that nothing disturbs."""

    rows = 20000
    options = ("--set", "train_config.save_checkpoints_steps=30", "--set", "train_config.keep_checkpoint_max=2")

    def command(self, model, *options):
        return ["train", "--config", self.config, "--model-dir", model, *self.options, *options]

    def learned(self, model):
        latest = max(model.glob("model.ckpt-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        return latest.name, {name: data for name, data in files_of(latest).items()
                             if name.startswith("tables/") or name == "dense.safetensors"}

    def kill_and_finish(self, model, is_time, *options, ranks=1):
        """Training whose last rank is killed once, when is_time() holds, and which is restarted."""
        slow = {**CLEAN, "EMBLEM_TEST_READ_BYTES_PER_SECOND": "4000000"}
        job = Launched("--ranks", ranks, "--restarts", 2, "--", *self.command(model, *options), env=slow)
        self.addCleanup(job.kill)
        self.assertTrue(becomes_true(lambda: is_time(job) or job.process.poll() is not None))
        os.kill(job.ranks()[ranks - 1], signal.SIGKILL)
        self.assertEqual(job.wait(), 0, job.errors)
        self.assertIn("restart 1 of 2 in 1 s", "\n".join(job.errors))
        return job

    def test_training_continues_with_the_same_bytes(self):
        undisturbed = self.folder / "undisturbed"
        self.succeed(run(*self.command(undisturbed)))
        for name, is_time, message in (
                ("killed", lambda job: list((self.folder / "killed").glob("model.ckpt-*")), "resuming from"),
                ("at-once", lambda job: 0 in job.ranks(), "holds no checkpoint yet; starting from the beginning")):
            with self.subTest(name=name):
                job = self.kill_and_finish(self.folder / name, is_time)
                self.assertIn(message, "\n".join(job.errors))
                self.assertEqual(self.learned(self.folder / name), self.learned(undisturbed))

    def test_training_on_several_ranks_continues_with_the_same_bytes(self):
        undisturbed, killed = self.folder / "two-ranks", self.folder / "two-ranks-killed"
        job = Launched("--ranks", 2, "--", *self.command(undisturbed))
        self.assertEqual(job.wait(), 0, job.errors)
        job = self.kill_and_finish(killed, lambda job: list(killed.glob("model.ckpt-*")), ranks=2)
        self.assertIn(f"rank 1 of 2 (host {HOST}): killed by signal 9 (Killed); restart 1 of 2", "\n".join(job.errors))
        self.assertIn("resuming from", "\n".join(job.errors))
        self.assertEqual(self.learned(killed), self.learned(undisturbed))

    def test_a_restart_of_fine_tuning_before_the_first_checkpoint_begins_with_its_weights(self):
        base, plain = self.folder / "base", self.folder / "fine-tuned"
        self.succeed(run(*self.command(base, "--max-steps", 10)))
        self.succeed(run(*self.command(plain, "--init-from", base)))
        self.kill_and_finish(self.folder / "killed-early", lambda job: 0 in job.ranks(), "--init-from", base)
        self.assertEqual(self.learned(self.folder / "killed-early"), self.learned(plain))

    def test_the_default_number_of_threads(self):
        for threads in ("0", "x", ""):
            self.fail_with(run(*self.command(self.folder / "none"), env={**CLEAN, "EMBLEM_THREADS": threads}),
                           f'EMBLEM_THREADS is "{threads}"; expected 1 to 1024')

    def test_a_model_that_is_there_already_is_not_continued(self):
        model = self.folder / "there"
        self.succeed(run(*self.command(model, "--max-steps", 10)))
        before = files_of(model)
        job = Launched("--ranks", 1, "--restarts", 2, "--", *self.command(model))
        self.assertEqual(job.wait(), 1)
        self.assertIn("exists already; continue it with --resume", job.errors[0])
        self.assertIn("not restarted", job.errors[-1])
        self.assertEqual(files_of(model).keys(), before.keys())


if __name__ == "__main__":
    unittest.main()
