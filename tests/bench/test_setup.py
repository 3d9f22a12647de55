#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/setup.sh's way of installing, with stubs for dpkg-query, id, sudo and apt-get: who is called, and how."""
import os
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SETUP = os.path.join(HERE, "..", "..", "bench", "setup.sh")
STUBS = {
    "dpkg-query": 'case "$*" in *"there") echo "install ok installed" ;; *) exit 1 ;; esac',
    "id": 'echo "$USER_ID"',
    "apt-get": 'echo "$DEBIAN_FRONTEND apt-get $*" >>"$CALLS"; case "$*" in *"$BROKEN"*) exit 100 ;; esac',
    "sudo": 'echo "sudo $1" >>"$CALLS"; [ "$REFUSE" = no ] || exit 1; exec "$@"',
}


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="dpbench-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.calls = os.path.join(self.folder, "calls")
        for name, text in STUBS.items():
            self.stub(name, text)
        for name in ("sh", "env", "grep", "true"):
            os.symlink(shutil.which(name), os.path.join(self.folder, name))

    def stub(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n%s\n" % text)
        os.chmod(path, 0o755)

    def install(self, *packages, user=0, install="yes", refuse="no", broken="none"):
        """(what was said, the calls of sudo and apt-get without the options that all have)"""
        env = {"PATH": self.folder, "CALLS": self.calls, "USER_ID": str(user), "REFUSE": refuse, "BROKEN": broken, "install": install}
        done = subprocess.run(["sh", "-uc", ". %s; setup_install %s" % (SETUP, " ".join(packages))], env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        calls = []
        if os.path.exists(self.calls):
            with open(self.calls, encoding="utf-8") as f:
                calls = [line.strip().replace(" -q -o DPkg::Lock::Timeout=120", "") for line in f]
            os.unlink(self.calls)
        return done.stdout, calls

    UPDATE = "noninteractive apt-get update"
    INSTALL = "noninteractive apt-get install -y --no-install-recommends "

    def test_what_is_there_is_not_installed(self):
        self.assertEqual(self.install("there"), ("", []))
        self.assertEqual(self.install("there", "one", "two")[1], [self.UPDATE, self.INSTALL + "one two"])

    def test_a_user_goes_through_sudo(self):
        said, calls = self.install("one", user=1000)
        self.assertEqual(calls, ["sudo true", "sudo env", self.UPDATE, "sudo env", self.INSTALL + "one"])
        self.assertIn("password", said)

    def test_what_is_left_out_is_named(self):
        said, calls = self.install("one", user=1000, refuse="yes")
        self.assertEqual(calls, ["sudo true"])
        self.assertIn("sudo refused; left out: one", said)
        os.unlink(os.path.join(self.folder, "sudo"))
        said, calls = self.install("one", user=1000)
        self.assertEqual(calls, [])
        self.assertIn("not root and no sudo; left out: one", said)
        said, calls = self.install("one", install="no")
        self.assertEqual(calls, [])
        self.assertIn("--no-install was given; left out: one", said)

    def test_one_that_can_not_be_had_does_not_keep_the_others_out(self):
        said, calls = self.install("one", "two", broken="one")
        self.assertEqual(calls, [self.UPDATE, self.INSTALL + "one two", self.INSTALL + "one", self.INSTALL + "two"])
        self.assertIn("left out: one\n", said)
        self.assertNotIn("left out: two", said)

    def test_without_lists_what_is_cached_is_tried(self):
        said, calls = self.install("one", broken="update")
        self.assertEqual(calls, [self.UPDATE, self.INSTALL + "one"])
        self.assertIn("apt-get update failed", said)


if __name__ == "__main__":
    unittest.main()
