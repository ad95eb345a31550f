#!/usr/bin/env bash
# The reference suites conformance.mjs and conformance.py, where their folder stands beside the repository.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
reference="$here/../../../shared/gradio"
if [ ! -f "$reference/conformance.mjs" ]; then
    echo "SKIP conformance: no $reference"
    exit 0
fi
exec "$here/../../.tools/py/bin/python" -u "$here/run.py" conformance --workers foreign "$@"
