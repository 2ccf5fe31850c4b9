"""The Python package beside other packages: frames, old versions, clashes of names, libraries of CUDA."""
from python_package import run_suite, use_package

use_package()
if __name__ == "__main__":
    run_suite("installation", "sklearn_data")
