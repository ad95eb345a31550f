"""The project's own scenarios with the stock Python client (`gradio_client`, whatever version is installed).

    JWT_SECRET=... python suite.py --base URL [--peer URL] [--rest URL] [--worker foreign|real] [--only a,b] [--list]

Prints a PASS, FAIL or SKIP line per scenario and `N passed, N failed` at the end; exits with 1 if anything failed.
"""
import sys

import lib

if __name__ == "__main__":
    if lib.A.worker == "real":
        from scenarios_real import SCENARIOS
    else:
        from scenarios_foreign import SCENARIOS
    sys.exit(lib.run_all(SCENARIOS))
