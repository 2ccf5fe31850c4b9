"""The Debian package of this build: what it contains and needs, what lintian says, and that the program in it runs."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import EMBLEM

BUILD = pathlib.Path(EMBLEM).resolve().parent


def said(*command, **given):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **given)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@unittest.skipUnless(shutil.which("dpkg-shlibdeps") and (BUILD / "CPackConfig.cmake").exists(), "needs dpkg-dev and a build")
class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="emblem-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        said("cpack", "-G", "DEB", "-B", cls.folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", cwd=BUILD)
        [cls.deb] = cls.folder.glob("*.deb")

    def test_files(self):
        listed = re.findall(r"^(\S+) (\S+) .* \./(\S+?)(?: -> .*)?$", said("dpkg-deb", "-c", self.deb), re.M)
        names = {name for _, _, name in listed}
        for name in ("usr/bin/emblem", "usr/lib/emblem/libemblem.so", "usr/include/emblem/trainer.h", "etc/emblem/serve.conf",
                     "lib/systemd/system/emblem.service", "usr/lib/sysusers.d/emblem.conf", "usr/share/man/man1/emblem-serve.1.gz",
                     "usr/share/man/man1/emblem-bench-train.1.gz", "usr/share/bash-completion/completions/emblem",
                     "usr/share/zsh/vendor-completions/_emblem", "usr/share/fish/vendor_completions.d/emblem.fish",
                     "usr/share/doc/emblem/copyright", "usr/share/emblem/configs/criteo/dlrm.config"):
            self.assertIn(name, names)
        self.assertEqual({owner for _, owner, _ in listed}, {"root/root"})
        self.assertEqual([name for mode, _, name in listed if "w" in mode[5] + mode[8]], [])

    def test_control(self):
        fields = said("dpkg-deb", "-f", self.deb, "Package", "Depends")
        self.assertIn("Package: emblem\n", fields)
        for needed in ("libc6 (>= ", "libstdc++6 (>= ", "libprotobuf", "systemd | systemd-standalone-sysusers"):
            self.assertIn(needed, fields)
        self.assertIn("/etc/emblem/serve.conf", said("dpkg-deb", "-I", self.deb, "conffiles"))

    def test_the_program_in_it_runs_with_its_own_libraries(self):
        root = self.folder / "root"
        said("dpkg-deb", "-x", self.deb, root)
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        self.assertIn("emblem", said(root / "usr/bin/emblem", "--version", env=environment))
        used = said("ldd", root / "usr/bin/emblem", env=environment)
        self.assertIn(f"{root}/usr/", used.replace("usr/bin/../lib", "usr/lib"))
        self.assertNotIn(str(BUILD), used)
        self.assertNotIn("not found", used)

    def test_lintian(self):
        if not shutil.which("lintian"):
            self.skipTest("lintian is not installed")
        found = subprocess.run(["lintian", "--fail-on", "error,warning", "--tag-display-limit", "0", self.deb],
                               capture_output=True, text=True)
        self.assertEqual((found.returncode, found.stdout), (0, ""), found.stdout + found.stderr)


if __name__ == "__main__":
    unittest.main()
