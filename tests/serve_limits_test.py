"""emblem serve where the system allows too few threads (ulimit -u): one line and exit status 1, never a hang."""

import os
import signal
import subprocess
import sys
import threading
import unittest

from harness import EMBLEM, SKIPPED, EmblemTest, limited_user


class ThreadLimit(EmblemTest):
    rows = 2000

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder.chmod(0o755)
        cls.repository = cls.make_served("dlrm")
        # Engines with threads of their own.
        config = cls.repository / "dlrm/config.pbtxt"
        config.write_text(config.read_text() + 'parameters { key: "threads" value { string_value: "2" } }\n')

    def serve(self, threads, *options):
        """The exit status, whether it got ready (and was asked to stop then), and what it said on stderr."""
        process = subprocess.Popen(
            [EMBLEM, "serve", "--models", str(self.repository), "--address", "127.0.0.1", "--http-port", "0",
             "--grpc-port", "0", "--metrics-port", "0", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limited_user(processes=threads))
        watchdog = threading.Timer(120, process.kill)
        watchdog.start()
        ready = any(line.startswith("ready") for line in process.stdout)
        if ready:
            process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate()
        watchdog.cancel()
        self.assertNotEqual(process.returncode, -signal.SIGKILL, f"with {threads} threads it hangs: {stderr}")
        return process.returncode, ready, stderr

    def test_every_limit_gives_a_server_or_one_line(self):
        options = ["--http-threads", "16", "--grpc-threads", "3"]
        for threads in range(1, 120):
            status, ready, stderr = self.serve(threads, *options)
            if ready:
                self.assertEqual(status, 0, stderr)
                self.assertGreater(threads, 16)
                return
            with self.subTest(threads=threads):
                self.assertEqual(status, 1, stderr)
                # Arrow's allocator on x86-64 says so, too, and goes on.
                problems = [line for line in stderr.splitlines()
                            if not line.startswith(("emblem: model ", "emblem: warning: model ", "<jemalloc>"))]
                self.assertEqual(len(problems), 1, stderr)
                self.assertRegex(problems[0], "^emblem: cannot start a thread for .*ulimit -u")
        self.fail("with 119 threads it does not start")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: needs root, to become a user that the limit holds for")
        sys.exit(SKIPPED)
    unittest.main()
