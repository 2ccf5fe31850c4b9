"""The Python package: items that are searched by their vectors, and recommendations of matching models."""
from python_package import run_suite, use_package

use_package()
if __name__ == "__main__":
    run_suite("index")
