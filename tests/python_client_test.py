"""The Python package: the client of a server, and predictors."""
from python_package import run_suite, use_package

use_package()
if __name__ == "__main__":
    run_suite("client", "predictor")
