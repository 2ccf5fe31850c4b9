"""The Python package: tables of one's own, and rows that iterators give."""
from python_package import run_suite, use_package

use_package()
if __name__ == "__main__":
    run_suite("table", "iterators")
