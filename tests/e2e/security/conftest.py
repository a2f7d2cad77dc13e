"""Certificates that the tests of a file share."""

import pytest

from security.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """An authority that nobody trusts."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


@pytest.fixture(scope="module")
def pair(authority):
    """A certificate of the server, with its key."""
    return authority.server()
