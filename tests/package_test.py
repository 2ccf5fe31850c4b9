"""What packages have beside the program: man pages and completion made from --help, the service, the image, manifests of
Kubernetes."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import EMBLEM, SOURCE, use_test_clients

use_test_clients("yaml")
import yaml  # noqa: E402

PACKAGE = SOURCE / "tools/package"
sys.path.insert(0, str(PACKAGE))
sys.dont_write_bytecode = True
import completions  # noqa: E402
import man_pages  # noqa: E402
import program_help  # noqa: E402

COMMANDS = program_help.commands(EMBLEM)
VERSION = re.search(r'kVersion = "([^"]+)"', (SOURCE / "include/emblem/api.h").read_text())[1]
UNIT = PACKAGE / "debian/emblem.service"


def options_of(*words):
    return {option.name for command in COMMANDS if command.words == words for option in command.options}


def said(*command, **given):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **given)


class Help(unittest.TestCase):
    def test_options_arguments_and_choices(self):
        command = program_help.parse(("do",), """Does it,
twice
Usage: emblem do [OPTIONS] A

Positionals:
  A                           What (required)

Options:
  --help                      Print this
  --how fast|very-slow        The way: one that
                              is known
  --a-very-long-option-name FILE
                              A file
""")
        self.assertEqual((command.summary, command.usage), ("Does it, twice", "emblem do [OPTIONS] A"))
        self.assertEqual(command.positionals, [program_help.Entry("A", "", "What (required)")])
        self.assertEqual(command.options[1:], [program_help.Entry("--how", "fast|very-slow", "The way: one that is known"),
                                               program_help.Entry("--a-very-long-option-name", "FILE", "A file")])
        self.assertEqual([one.choices for one in command.options], [[], ["fast", "very-slow"], []])
        self.assertEqual([one.is_path for one in command.options], [False, False, True])

    def test_a_section_that_nothing_reads_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "emblem do --help has sections that nothing reads: Notes"):
            program_help.parse(("do",), "Does\nUsage: emblem do\n\nOptions:\n  --help  Help\n\nNotes:\n  none\n")

    def test_all_commands_are_found(self):
        names = {command.words for command in COMMANDS}
        self.assertTrue({(), ("train",), ("serve",), ("bench", "train"), ("cache", "verify")} <= names)
        self.assertIn("--model-control-mode", options_of("serve"))


class ManPages(unittest.TestCase):
    def test_each_has_every_option(self):
        for command in COMMANDS:
            page = man_pages.page(command, VERSION, "2026-01-02")
            self.assertTrue(page.startswith(f'.TH "{man_pages.name_of(command).upper()}" 1 "2026-01-02" "emblem {VERSION}"'))
            bold = [line.replace("\\-", "-") for line in page.splitlines()]
            for option in command.options:
                self.assertTrue(any(line.startswith(f"\\fB{option.name}\\fR") for line in bold), option)

    def test_text_is_no_request(self):
        self.assertEqual(man_pages.escape(".TP a-b\\n"), "\\&.TP a\\-b\\en")

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_man_shows_them(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "emblem-serve.1"
            [command] = [one for one in COMMANDS if one.words == ("serve",)]
            path.write_text(man_pages.page(command, VERSION, "2026-01-02"))
            shown = said("man", "--warnings", "-l", path, env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertIn("--model-control-mode none|poll|explicit", shown.stdout)


class Completion(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def bash(self, *words):
        (self.folder / "emblem").write_text(completions.bash(COMMANDS))
        (self.folder / "data.csv").touch()
        script = ('source ./emblem; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _emblem; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = said("bash", "-euc", script, "bash", "emblem", *words, cwd=self.folder)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash(self):
        self.assertEqual(self.bash("tra"), ["train"])
        self.assertEqual(self.bash("train", "--devic"), ["--device", "--device-transport"])
        self.assertEqual(self.bash("train", "--device", ""), ["cpu", "cuda"])
        self.assertEqual(self.bash("bench", "coll"), ["collection"])
        self.assertEqual(self.bash("train", "--config", "da"), ["data.csv"])
        self.assertEqual(set(self.bash("bench", "train", "--")), options_of("bench", "train"))

    def test_zsh_and_fish_have_every_option(self):
        zsh, fish = completions.zsh(COMMANDS), completions.fish(COMMANDS)
        for command in COMMANDS:
            for option in command.options:
                self.assertIn(f"{option.name}[", zsh)
                self.assertIn(f" -l {option.name[2:]} ", fish)
        for shell, name, text in (("zsh", "_emblem", zsh), ("fish", "emblem.fish", fish)):
            (self.folder / name).write_text(text)
            if shutil.which(shell):
                done = said(shell, "-n", self.folder / name)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)


class Service(unittest.TestCase):
    def test_options_of_its_file_exist(self):
        settings = dict(line.split("=", 1) for line in (PACKAGE / "debian/serve.conf").read_text().splitlines()
                        if "=" in line and not line.startswith("#"))
        self.assertEqual(set(settings), {"EMBLEM_MODELS", "EMBLEM_OPTIONS"})
        for option in re.findall(r"--[\w-]+", settings["EMBLEM_OPTIONS"]):
            self.assertIn(option, options_of("serve"))

    def test_requests_in_progress_may_end(self):
        [command] = [one for one in COMMANDS if one.words == ("serve",)]
        [text] = [one.text for one in command.options if one.name == "--exit-timeout-secs"]
        limit = int(re.search(r"default: (\d+)", text)[1])
        self.assertGreater(int(re.search(r"TimeoutStopSec=(\d+)", UNIT.read_text())[1]), limit)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not installed")
    def test_systemd_takes_it_and_finds_it_confined(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / "emblem.service"
            unit.write_text(re.sub("^Documentation=.*\n", "", UNIT.read_text(), flags=re.M)
                            .replace("/usr/bin/emblem", str(pathlib.Path(EMBLEM).resolve())))
            verified = said("systemd-analyze", "verify", unit)
            self.assertEqual((verified.returncode, verified.stderr), (0, ""))
            judged = said("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit)
            self.assertEqual(judged.returncode, 0, judged.stdout[-300:])

    def test_scripts_of_the_package_are_valid(self):
        for name in ("postinst", "prerm", "postrm"):
            done = said("sh", "-n", PACKAGE / "debian" / name)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)


class Image(unittest.TestCase):
    def test_it_runs_as_a_user_without_rights(self):
        text = (SOURCE / "Containerfile").read_text()
        stages = dict(re.findall(r"^FROM \S+ AS (\w+)$(.*?)(?=^FROM)", text, re.M | re.S))
        self.assertEqual(text.strip().splitlines()[-1], "FROM serve")
        self.assertEqual(re.findall(r"^USER (.*)$", stages["serve"], re.M), ["65532:65532"])
        words = re.findall(r'"([^"]+)"', re.search(r"^CMD (\[.*\])$", stages["serve"], re.M)[1])
        for option in words[1:]:
            if option.startswith("--"):
                self.assertIn(option, options_of(words[0]))

    def test_versions_are_those_of_the_program(self):
        self.assertEqual(set(re.findall(r"emblem:([\d.]+)", (SOURCE / "Containerfile").read_text())), {VERSION})
        recipe = yaml.safe_load((PACKAGE / "conda/recipe.yaml").read_text())
        self.assertEqual(recipe["context"]["version"], VERSION)


class Manifests(unittest.TestCase):
    def objects(self, name):
        found = list(yaml.safe_load_all((SOURCE / "configs/kubernetes" / name).read_text()))
        return {(one["kind"], one["metadata"]["name"]): one for one in found}

    def pod(self, made):
        return made["spec"]["template"]["spec"]

    def test_all_are_known_and_valid(self):
        names = sorted(path.name for path in (SOURCE / "configs/kubernetes").iterdir())
        self.assertEqual(names, ["serve.yaml", "split_tables.yaml"])
        try:
            import kubernetes_validate
        except ImportError:
            self.skipTest("kubernetes-validate is not installed (tools/test_clients.sh)")
        for path in [*(SOURCE / "configs/kubernetes").iterdir(), SOURCE / "configs/launch/indexed_job.yaml"]:
            for made in yaml.safe_load_all(path.read_text()):
                kubernetes_validate.validate(made, "1.37", strict=True)

    def test_pods_are_confined_and_their_options_exist(self):
        pods = [self.pod(one) for name in ("serve.yaml", "split_tables.yaml") for (kind, _), one in self.objects(name).items()
                if kind in ("Deployment", "StatefulSet")]
        self.assertEqual(len(pods), 3)
        for pod in pods:
            [container] = pod["containers"]
            self.assertEqual(container["image"], f"emblem:{VERSION}")
            self.assertEqual((pod["securityContext"]["runAsNonRoot"], container["securityContext"]["readOnlyRootFilesystem"]),
                             (True, True))
            self.assertGreater(pod["terminationGracePeriodSeconds"], 30)
            for option in re.findall(r"(?:^| )(--[\w-]+)", " ".join(container["args"])):
                self.assertIn(option, options_of("serve"))
            self.assertEqual({container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")},
                             {"/v2/health/ready", "/v2/health/live"})
            mounted = {one["name"] for one in container["volumeMounts"]}
            self.assertEqual(mounted, {one["name"] for one in pod["volumes"]})

    def test_services_and_budgets_select_the_pods(self):
        for name in ("serve.yaml", "split_tables.yaml"):
            made = self.objects(name)
            labels = [one["spec"]["template"]["metadata"]["labels"] for (kind, _), one in made.items()
                      if kind in ("Deployment", "StatefulSet")]
            for (kind, _), one in made.items():
                if kind == "Service":
                    self.assertIn(one["spec"]["selector"], labels)
                if kind == "PodDisruptionBudget":
                    self.assertIn(one["spec"]["selector"]["matchLabels"], labels)

    def test_each_table_server_has_its_parts_and_front_ends_know_all(self):
        made = self.objects("split_tables.yaml")
        tables, front = made["StatefulSet", "emblem-tables"], self.pod(made["Deployment", "emblem"])["containers"][0]
        count = tables["spec"]["replicas"]
        [container] = self.pod(tables)["containers"]
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "emblem"
            program.write_text('#!/bin/sh\necho "$@"\n')
            program.chmod(0o755)
            parts = [said(*container["command"], *container["args"], env={"PATH": f"{folder}:{os.environ['PATH']}",
                                                                         "HOSTNAME": f"emblem-tables-{number}"}).stdout.split()[-1]
                     for number in range(count)]
        self.assertEqual(parts, ["1/3", "2/3", "3/3"])
        service = tables["spec"]["serviceName"]
        self.assertEqual(front["args"][-1].split(","), [f"emblem-tables-{number}.{service}:8000" for number in range(count)])


if __name__ == "__main__":
    unittest.main()
