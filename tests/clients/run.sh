#!/usr/bin/env bash
# The project's own client suites: stock JavaScript and Python clients against two gateways, directly and behind
# nginx, with the foreign worker and with the real one. Needs what tests/setup.sh installs, and built binaries.
#   tests/clients/run.sh [--joins 2000] [--clients 2.7.0,py-2.7.2] [--workers foreign,real] [--keep]
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
exec "$here/../../.tools/py/bin/python" -u "$here/run.py" suites "$@"
