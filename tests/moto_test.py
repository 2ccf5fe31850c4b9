"""The whole way over moto, a server that checks what S3 checks: buckets, multipart uploads, users and signatures."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

from harness import EMBLEM, EmblemTest, Server, becomes_true, learned_files, require_arrow, run, use_test_clients

use_test_clients("moto", "flask_cors", "boto3")

import remote_data_test  # noqa: E402 (sets the environment)

import boto3  # noqa: E402
from importlib.metadata import version  # noqa: E402

# moto before 5.2.5 keeps other encoded characters of the key of an upload that is aborted.
SPECIAL_KEY = "a b+c&d=ü.tsv" if tuple(map(int, version("moto").split(".")[:3])) >= (5, 2, 5) else "a b.tsv"

# moto computes signatures from decoded parameters of a request, clients from encoded ones.
MOTO = """
from urllib.parse import parse_qsl, quote
from moto.iam import access_control
from moto.server import main

decoded = access_control.IAMRequestBase._create_aws_request

def encoded(self):
    request = decoded(self)
    path, _, query = request.url.partition("?")
    pairs = [quote(name, safe="") + "=" + quote(value, safe="") for name, value in parse_qsl(query, True)]
    request.url = path + ("?" + "&".join(pairs) if pairs else "")
    return request

access_control.IAMRequestBase._create_aws_request = encoded
main(["-H", "127.0.0.1", "-p", "0"])
"""


class Moto(EmblemTest):
    rows = 20000

    @classmethod
    def setUpClass(cls):
        require_arrow()
        super().setUpClass()
        cls.process = subprocess.Popen([sys.executable, "-c", MOTO], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for line in cls.process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                cls.url = found[0]
                break
        # Keep reading: a full pipe would block the server.
        cls.reader = threading.Thread(target=lambda: [None for _ in cls.process.stderr], daemon=True)
        cls.reader.start()
        cls.client = boto3.client("s3", endpoint_url=cls.url)
        cls.client.create_bucket(Bucket="data")
        for part in ("train", "test"):
            for path in sorted((cls.data / part).glob("*")):
                cls.client.upload_file(str(path), "data", f"{part}/{path.name}")

    @classmethod
    def tearDownClass(cls):
        cls.process.kill()
        cls.process.wait()
        cls.reader.join()
        cls.process.stderr.close()
        cls.client.close()
        super().tearDownClass()

    def keys(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="data", Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def test_write_train_kill_resume_export_serve(self):
        cache = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        store = ["--endpoint", self.url, "--cache-dir", cache]
        data = ["--train-input", "s3://data/written/train/", "--eval-input", "s3://data/written/test/"]
        for part in ("train", "test"):
            self.succeed(run("convert", "--from", self.data / part, "--to", f"s3://data/written/{part}", "--format", "tsv", *store))
        every = ["--set", "train_config.save_checkpoints_steps=10"]
        local = self.folder / "local"
        self.succeed(self.train(local, *every))
        model = "s3://data/runs/1"
        process = subprocess.Popen([EMBLEM, "train", "--config", self.config, "--model-dir", model,
                                    *map(str, [*data, *store, *every])], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.assertTrue(becomes_true(lambda: "runs/1/model.ckpt-10/manifest.json" in self.keys("runs/") or
                                     process.poll() is not None))
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.succeed(self.train(model, *data, *store, *every, "--resume"))
        checkpoint = max(local.glob("model.ckpt-*"), key=lambda path: int(path.name.split("-")[1]))
        for name, content in learned_files(checkpoint).items():
            stored = self.client.get_object(Bucket="data", Key=f"runs/1/{checkpoint.name}/{name}")["Body"].read()
            self.assertEqual(stored, content, name)
        self.succeed(run("export", "--checkpoint", model, "--out", "s3://data/models/ctr", *store))
        server = Server("s3://data/models", *store)
        try:
            self.assertEqual(server.get("/v2/models/ctr/ready")[0], 200)
        finally:
            self.assertEqual(server.stop(), 0)

    def ask_moto(self, path, body):
        urllib.request.urlopen(urllib.request.Request(self.url + path, body, {"Content-Type": "text/plain"})).close()

    def test_users_and_signatures(self):
        """Requests are refused with another secret, an unknown key, and of a user who may not read; then one who may."""
        iam = boto3.client("iam", endpoint_url=self.url, region_name="us-east-1")
        keys = {}
        for name, action in (("reader", "s3:*"), ("other", "ec2:*")):
            iam.create_user(UserName=name)
            policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]}
            iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(policy))
            keys[name] = iam.create_access_key(UserName=name)["AccessKey"]
        iam.close()

        def run_as(key, secret, *command):
            environment = {**os.environ, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}
            return run(*command, "--endpoint", self.url, "--cache-dir", self.folder / "signed", env=environment)

        def inspect(key, secret):
            return run_as(key, secret, "inspect", "s3://data/test/")

        reader, other = keys["reader"], keys["other"]
        for key in ("signed/set/part-00000.tsv", f"signed/set/{SPECIAL_KEY}", "signed/settled"):  # of killed processes
            self.client.create_multipart_upload(Bucket="data", Key=key)
        self.ask_moto("/moto-api/reset-auth", b"0")  # from now on all requests are checked
        try:
            self.fail_with(inspect(reader["AccessKeyId"], "wrong"), "s3://data/test/", "AWS_ACCESS_KEY_ID")
            self.fail_with(inspect("unknown", "wrong"), "s3://data/test/", "AWS_ACCESS_KEY_ID")
            self.fail_with(inspect(other["AccessKeyId"], other["SecretAccessKey"]), "s3://data/test/", "AWS_ACCESS_KEY_ID")
            shown = self.succeed(inspect(reader["AccessKeyId"], reader["SecretAccessKey"]))
            self.assertIn("Criteo", shown.stdout)
            written = self.succeed(run_as(reader["AccessKeyId"], reader["SecretAccessKey"], "convert", "--from", self.data / "test",
                                          "--to", "s3://data/signed/set", "--format", "tsv"))
            self.assertNotIn("lifecycle", written.stderr)
        finally:
            self.ask_moto("/moto-api/reset-auth", b"inf")
        uploads = self.client.list_multipart_uploads(Bucket="data").get("Uploads", [])
        self.assertEqual([upload["Key"] for upload in uploads], ["signed/settled"])

    def test_a_missing_bucket(self):
        self.fail_with(run("inspect", "s3://none/x/", "--endpoint", self.url, "--cache-dir", self.folder / "c"), "s3://none/x/")


if __name__ == "__main__":
    unittest.main()
