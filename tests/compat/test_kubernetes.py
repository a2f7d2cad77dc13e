"""The manifests of deploy/kubernetes fit the schemas of Kubernetes, of the oldest version whose schemas are there and of the
newest; a field that is not known is an error."""

import subprocess

import pytest
from conftest import INSTALLED

from support import paths, wait


@pytest.mark.install
@pytest.mark.parametrize("version", ["1.25", "1.30", "1.37"])
@pytest.mark.parametrize("manifest", sorted((paths.ROOT / "deploy/kubernetes").glob("*.yaml")), ids=lambda p: p.name)
def test_manifest(manifest, version):
    done = subprocess.run([INSTALLED / "kubernetes/bin/kubernetes-validate", "--strict", "-k", version, manifest],
                          capture_output=True, text=True, timeout=wait.SECONDS, check=False)
    assert done.returncode == 0 and done.stdout.count("passed") == 3, done.stdout + done.stderr
