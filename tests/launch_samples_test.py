"""The samples in configs/launch: scripts that a shell accepts and that start the commands they name, valid YAML."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import SOURCE, run, use_test_clients

use_test_clients("yaml")

import yaml  # noqa: E402

SAMPLES = SOURCE / "configs/launch"
SCRIPTS = ("hosts.sh", "mpirun.sh", "slurm.sbatch")
MANIFESTS = ("indexed_job.yaml", "mpijob.yaml", "pytorchjob.yaml")


class Samples(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-samples-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def commands_of(self, script, *arguments, fails=0):
        """The commands that a script starts, recorded by programs that stand for emblem, mpirun and srun."""
        for name in ("emblem", "mpirun", "srun", "sleep"):
            program = self.folder / name
            program.write_text(f'#!/bin/sh\necho {name} "$@" >> {self.folder}/commands\n'
                               f'[ {name} = sleep ] || [ $(grep -vc sleep {self.folder}/commands) -gt {fails} ]\n')
            program.chmod(0o755)
        done = subprocess.run(["bash", SAMPLES / script, *arguments], capture_output=True, text=True,
                              env={"PATH": f"{self.folder}:{os.environ['PATH']}", "PIPELINE": "my.config"})
        lines = (self.folder / "commands").read_text().splitlines()
        (self.folder / "commands").unlink()
        return done.returncode, lines

    def test_all_are_known(self):
        self.assertEqual(sorted(path.name for path in SAMPLES.iterdir()), sorted(SCRIPTS + MANIFESTS))

    def test_scripts_are_valid(self):
        for script in SCRIPTS:
            done = subprocess.run(["bash", "-n", SAMPLES / script], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)

    def test_what_scripts_start(self):
        self.assertEqual(self.commands_of("hosts.sh", "node1", "node2"), (0, [
            "emblem launch --hosts node1:4,node2:4 --restarts 5 --least-ranks 4 --log-dir logs -- train --config my.config"]))
        mpirun = "mpirun -n 4 --hostfile x emblem train --config my.config --resume"
        self.assertEqual(self.commands_of("mpirun.sh", "--hostfile", "x"), (0, [mpirun]))
        self.assertEqual(self.commands_of("mpirun.sh", "--hostfile", "x", fails=2),
                         (0, [mpirun, "sleep 1", mpirun, "sleep 2", mpirun]))
        status, lines = self.commands_of("mpirun.sh", fails=100)
        self.assertEqual((status, sum(line.startswith("mpirun") for line in lines)), (1, 4))
        self.assertEqual(self.commands_of("slurm.sbatch", "my.config"), (0, [
            "srun --kill-on-bad-exit=1 emblem train --config my.config --resume --threads 1"]))

    def test_manifests(self):
        job = yaml.safe_load((SAMPLES / "mpijob.yaml").read_text())
        self.assertEqual((job["apiVersion"], job["kind"]), ("kubeflow.org/v2beta1", "MPIJob"))
        replicas = job["spec"]["mpiReplicaSpecs"]
        launcher = replicas["Launcher"]["template"]["spec"]["containers"][0]["command"]
        ranks = replicas["Worker"]["replicas"] * job["spec"]["slotsPerWorker"]
        self.assertEqual(launcher[:4], ["mpirun", "-n", str(ranks), "emblem"])

        job = yaml.safe_load((SAMPLES / "pytorchjob.yaml").read_text())
        self.assertEqual((job["apiVersion"], job["kind"]), ("kubeflow.org/v1", "PyTorchJob"))
        replicas = job["spec"]["pytorchReplicaSpecs"]
        self.assertEqual(replicas["Master"]["replicas"], 1)
        self.assertEqual(replicas["Worker"]["template"], replicas["Master"]["template"])
        container = replicas["Master"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["name"], "pytorch")

        service, job = yaml.safe_load_all((SAMPLES / "indexed_job.yaml").read_text())
        rank = job["spec"]["template"]["spec"]["containers"][0]
        variables = {one["name"]: one.get("value") for one in rank["env"]}
        self.assertEqual(variables["WORLD_SIZE"], str(job["spec"]["completions"]))
        self.assertEqual(job["spec"]["completions"], job["spec"]["parallelism"])
        self.assertEqual(variables["MASTER_ADDR"], f"{job['metadata']['name']}-0.{service['metadata']['name']}")
        self.assertEqual(job["spec"]["template"]["spec"]["subdomain"], service["metadata"]["name"])
        for command in (launcher[3:], container["command"], ["emblem", *rank["args"]]):
            # All options exist: the file does not.
            self.assertIn("/data/pipeline.config", run(*command[1:]).stderr)


if __name__ == "__main__":
    unittest.main()
