"""The Python package beside other packages: clashes of names, libraries of CUDA."""
from python_package import run_suite, use_package

use_package()
if __name__ == "__main__":
    run_suite("installation")
