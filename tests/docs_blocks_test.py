"""Code in the documents: each block runs in a test or says why not, its commands and options exist, those that are quick run."""

import re
import sys
import unittest

from docs_blocks import all_blocks, commands, run_document
from harness import EMBLEM, SOURCE
from python_package import use_package

use_package()
sys.path.insert(0, str(SOURCE / "tools/package"))
import program_help  # noqa: E402

QUICK = ("five_minutes_python", "five_minutes_shell", "moving_from_torchrec", "moving_from_dynamicemb", "moving_from_hugectr",
         "moving_from_torcheasyrec", "moving_from_lightgbm")


class Blocks(unittest.TestCase):
    def test_each_runs_or_says_why_not(self):
        silent = [str(block) for block in all_blocks() if block.language and not block.status]
        self.assertEqual(silent, [], "a comment before the block says what tests it: see tests/docs_blocks.py")

    def test_tests_that_run_them_know_the_document(self):
        for block in all_blocks():
            if block.status.startswith("tested: "):
                script = SOURCE / block.status.removeprefix("tested: ")
                names = [script, *(SOURCE / "python/tests").glob("test_docs.py")]
                self.assertTrue(any(block.document.name in path.read_text() for path in names), f"{block}: {script.name}")

    def test_documents_with_blocks_that_run_are_run(self):
        found = {block.document.stem for block in all_blocks() if block.status == "run"}
        self.assertEqual(found, set(QUICK))
        slow = (SOURCE / "tests/docs_blocks_slow_test.py").read_text()
        for block in all_blocks():
            if block.status == "run: slow":
                self.assertIn(block.document.name, slow)

    def test_commands_and_options_exist(self):
        known = {one.words: one for one in program_help.commands(EMBLEM)}
        checked = 0
        for block in all_blocks():
            if block.language != "sh":
                continue
            for words in commands(block):
                name = ()
                while words[len(name):] and (*name, words[len(name)]) in known:
                    name = (*name, words[len(name)])
                if not name:
                    continue  # "emblem" is an argument
                checked += 1
                options = {option.name for option in known[name].options}
                for word in words:
                    option = re.match(r"--[\w-]+", word)
                    if option:
                        self.assertIn(option[0], options, f"{block}: emblem {' '.join(words)}")
        self.assertGreater(checked, 100)


def document_test(name):
    def test(self):
        run_document(self, f"docs/{name}.md", slow=False)
    return test


class Documents(unittest.TestCase):
    """A test for each document, so that ctest runs them at the same time."""


for document in QUICK:
    setattr(Documents, f"test_{document}", document_test(document))


if __name__ == "__main__":
    unittest.main()
