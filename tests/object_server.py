#!/usr/bin/env python3
"""An object store for tests: S3 (path style, signatures are not checked) and GCS (JSON) over HTTP, in one threaded server.

Objects are in memory. A test runs it in its own process and looks at it directly:

    with ObjectServer() as server:
        server.put("bucket", "day=1/part-0.csv", b"...")
        server.fail("503", times=3, match="part-0")
        ... EMBLEM train --endpoint server.url ...
        assert server.count("GET", "part-0") == 4

`python3 tests/object_server.py --folder DIR --bucket NAME` serves the files of a folder for trying things by hand.
Faults, each for the next `times` requests (with `every`: each `every`-th of them) whose "METHOD path?query" contains `match`:
    503        an answer SlowDown; 301, 403, 404 and 500 likewise
    skew       an answer RequestTimeTooSkewed
    lost       the request has its effect, but its answer is 503
    cut        the connection is closed after `bytes` bytes of the body
    short      the body ends after `bytes` bytes though the connection stays open, then closes after 1 s
    flip       one bit of byte number `bytes` of the body is another
    begin      a range is answered with as many bytes from the beginning of the object
    less       HEAD says that the object has `bytes` bytes fewer
    stall      nothing is sent until server.release() or the server ends, or for `seconds`; then the connection is closed
    late       the request waits for `seconds`, has its effect, and is answered
    change     the object gets new content (`content`) before it is answered
    swallowed  what S3 is to write or remove is answered as if that was done, but nothing changes
    page       a listing is answered by a page of HTML with status 200, as a proxy does
    empty      a listing is answered by nothing with status 200"""
import argparse, base64, hashlib, json, os, pathlib, re, socket, ssl, sys, threading, time, urllib.parse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
PAGE = 1000  # keys of a listing that are answered at a time


class StoredObject:
    generations = 1000

    def __init__(self, content, etag=None):
        self.content = bytes(content)
        self.etag = etag or hashlib.md5(self.content).hexdigest()
        self.modified = time.time()
        StoredObject.generations += 1
        self.generation = StoredObject.generations

    def iso(self):
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.modified)) + f".{int(self.modified * 1000) % 1000:03d}Z"


class Fault:
    def __init__(self, kind, times, match, bytes, content, every, seconds=None):
        self.kind, self.times, self.match, self.bytes, self.content = kind, times, match, bytes, content
        self.every, self.seen, self.seconds = every, 0, seconds


class Link:
    """A link that all connections share: `latency` seconds before every answer, `rate` bytes a second."""

    def __init__(self, latency=0.0, rate=0.0):
        self.latency, self.rate = latency, rate
        self.lock, self.free_at = threading.Lock(), 0.0

    def wait_for(self, count):
        if self.rate <= 0:
            return
        with self.lock:
            now = time.monotonic()
            self.free_at = max(self.free_at, now) + count / self.rate
            until = self.free_at
        delay = until - time.monotonic()
        if delay > 0:
            time.sleep(delay)


class ObjectServer:
    CHANCE_SECONDS = [0.05, 0.05, 0.05, 0.05, 0.05, 4]  # of stalled and late requests of fail_by_chance

    def __init__(self, port=0, latency=0.0, rate=0.0, certificate=None, key=None):
        self.lock = threading.RLock()
        self.buckets, self.uploads, self.faults, self.log = {}, {}, [], []
        self.upload_names = {}  # bucket and key of each upload in parts to S3
        self.upload_times = {}  # when it began; absent: long ago
        self.link, self.released = Link(latency, rate), threading.Event()
        self.chance, self.changed = None, None
        server = self

        class Bound(Handler):
            store = server

        class Server(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 128

            def handle_error(self, request, address):  # clients reset connections as a habit
                if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError, TimeoutError)):
                    super().handle_error(request, address)

        self.httpd = Server(("127.0.0.1", port), Bound)
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self.httpd.socket = context.wrap_socket(self.httpd.socket, server_side=True, do_handshake_on_connect=False)
            scheme = "https"
        self.port = self.httpd.server_address[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.httpd.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self.httpd.shutdown()
        self.httpd.server_close()

    # What tests use.
    def put(self, bucket, key, content, etag=None):
        with self.lock:
            self.buckets.setdefault(bucket, {})[key] = StoredObject(content, etag)
            if self.changed:
                self.changed(bucket, key)

    def put_parts(self, bucket, key, parts):
        """As an upload in parts leaves it: with an ETag that is no MD5 of the whole."""
        etag = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in parts)).hexdigest() + f"-{len(parts)}"
        self.put(bucket, key, b"".join(parts), etag)

    def put_folder(self, bucket, prefix, folder):
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_file():
                self.put(bucket, prefix + path.relative_to(folder).as_posix(), path.read_bytes())

    def get(self, bucket, key):
        with self.lock:
            found = self.buckets.get(bucket, {}).get(key)
            return found and found.content

    def keys(self, bucket, prefix=""):
        with self.lock:
            return sorted(key for key in self.buckets.get(bucket, {}) if key.startswith(prefix))

    def delete(self, bucket, key):
        with self.lock:
            self.buckets[bucket].pop(key, None)
            if self.changed:
                self.changed(bucket, key)

    def fail(self, kind, times=1, match="", bytes=0, content=b"", every=1, seconds=None):
        with self.lock:
            self.faults.append(Fault(kind, times, match, bytes, content, every, seconds))
            return self.faults[-1]

    def fail_by_chance(self, chance, share, kinds, match="", after=0):
        """A `share` of the requests fails, each with one of `kinds`, when `after` requests more have been answered; `chance`
        is a random.Random."""
        with self.lock:
            self.chance = (chance, share, kinds, match, len(self.log) + after)

    def when_changed(self, call):
        """Calls `call(bucket, key)` after every object that a request writes or removes."""
        self.changed = call

    def heal(self):
        with self.lock:
            self.faults.clear()
            self.chance = None

    def release(self):
        self.released.set()

    def count(self, method="", match=""):
        with self.lock:
            return sum(line.startswith(method) and match in line for line in self.log)

    def forget(self):
        with self.lock:
            self.log.clear()

    def fault_for(self, line):
        with self.lock:
            for fault in self.faults:
                if fault.match not in line or fault.times <= 0:
                    continue
                fault.seen += 1
                if fault.seen % fault.every == 0:
                    fault.times -= 1
                    return fault
            if self.chance:
                chance, share, kinds, match, begin = self.chance
                if match in line and len(self.log) > begin and chance.random() < share:
                    return Fault(chance.choice(kinds), 1, "", 10, b"", 1, chance.choice(self.CHANCE_SECONDS))
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    store = None

    def log_message(self, *_):
        pass

    def handle_expect_100(self):
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def begin(self):
        url = urllib.parse.urlsplit(self.path)
        self.url_path = urllib.parse.unquote(url.path)
        self.query = {k: v[0] for k, v in urllib.parse.parse_qs(url.query, keep_blank_values=True).items()}
        line = f"{self.command} {urllib.parse.unquote(self.path)}"
        with self.store.lock:
            self.store.log.append(line)
        self.body = self.read_body()
        if self.store.link.latency:
            time.sleep(self.store.link.latency)
        self.fault = self.store.fault_for(line)
        if self.fault is None:
            return True
        kind = self.fault.kind
        codes = {"301": "PermanentRedirect", "403": "AccessDenied", "404": "NoSuchKey", "500": "InternalError",
                 "503": "SlowDown", "skew": "RequestTimeTooSkewed"}
        if kind in codes:
            self.fail(403 if kind == "skew" else int(kind), codes[kind])
            return False
        if kind == "stall":
            self.store.released.wait(self.fault.seconds)
            self.close_connection = True
            return False
        if kind == "late":
            time.sleep(self.fault.seconds)
            self.fault = None
        if kind == "change":
            bucket, key = self.object_name()
            self.store.put(bucket, key, self.fault.content)
            self.fault = None
        return True

    def read_body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b""
            while size := self.read_chunk_size():
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.store.link.wait_for(len(body))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return body
        plain, at = b"", 0  # chunks with signatures, then trailers
        while True:
            end = body.index(b"\r\n", at)
            size = int(body[at:end].split(b";")[0], 16)
            if size == 0:
                return plain
            plain += body[end + 2:end + 2 + size]
            at = end + 2 + size + 2

    def read_chunk_size(self):
        line = self.rfile.readline()
        if not line:
            raise ConnectionResetError("the client was killed")
        return int(line.split(b";")[0], 16)

    def is_gcs(self):
        return self.url_path.startswith(("/storage/v1/", "/upload/storage/v1/", "/download/storage/v1/"))

    def object_name(self):
        if self.is_gcs():
            found = re.match(r"/(?:download/)?storage/v1/b/([^/]+)/o/(.*)", self.url_path, re.S)
            return found[1], found[2]
        bucket, _, key = self.url_path[1:].partition("/")
        return bucket, key

    def swallows(self):
        return self.fault is not None and self.fault.kind == "swallowed"

    # Answers.
    def answer(self, status, body=b"", kind="application/xml", headers=()):
        if self.fault is not None and self.fault.kind == "lost":
            self.fault = None
            return self.fail(503, "SlowDown")
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        if not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.send(body)

    def send(self, body):
        if self.fault is not None and self.fault.kind == "flip" and len(body) > self.fault.bytes:
            body = bytearray(body)
            body[self.fault.bytes] ^= 1
        view, at = memoryview(body), 0
        limit = len(body)
        if self.fault is not None and self.fault.kind in ("cut", "short"):
            limit = min(limit, self.fault.bytes)
        while at < limit:
            piece = view[at:min(at + 65536, limit)]
            self.store.link.wait_for(len(piece))
            self.wfile.write(piece)
            at += len(piece)
        if limit < len(body):
            self.wfile.flush()
            if self.fault.kind == "short":
                time.sleep(1)
            self.close_connection = True
            try:
                self.connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def fail(self, status, code):
        fault, self.fault = self.fault, None
        if self.is_gcs():
            self.answer(status, json.dumps({"error": {"code": status, "message": code}}).encode(), "application/json")
        else:
            self.answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())
        self.fault = fault

    def answer_json(self, value):
        self.answer(200, json.dumps(value).encode(), "application/json")

    def answer_object(self, found, extra=()):
        headers = [("ETag", f'"{found.etag}"'), ("Accept-Ranges", "bytes"),
                   ("Last-Modified", formatdate(found.modified, usegmt=True)), *extra]
        content, asked = found.content, re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        size = len(content)
        unless = self.headers.get("If-Match")
        if unless and unless.strip('"') != found.etag:
            return self.fail(412, "PreconditionFailed")
        if self.command == "HEAD":
            said = size - (self.fault.bytes if self.fault and self.fault.kind == "less" else 0)
            return self.answer(200, b"", "application/octet-stream", [*headers, ("Content-Length", str(said))])
        if asked is None:
            return self.answer(200, content, "application/octet-stream", headers)
        begin, end = int(asked[1]), min(int(asked[2] or size - 1), size - 1)
        if begin >= size:
            return self.fail(416, "InvalidRange")
        if self.fault and self.fault.kind == "begin":
            begin, end = 0, end - begin
        headers.append(("Content-Range", f"bytes {begin}-{end}/{size}"))
        self.answer(206, memoryview(content)[begin:end + 1], "application/octet-stream", headers)

    def find(self, bucket, key):
        with self.store.lock:
            if bucket not in self.store.buckets:
                self.fail(404, "NoSuchBucket")
                return None
            found = self.store.buckets[bucket].get(key)
        if found is None:
            self.fail(404, "NoSuchKey")
        return found

    def answers_page(self):
        """Whether a listing was answered by something else."""
        kind = self.fault.kind if self.fault is not None else ""
        if kind in ("page", "empty"):
            self.answer(200, b"<!DOCTYPE html><html><body><h1>Sign in</h1></body></html>" if kind == "page" else b"", "text/html")
        return kind in ("page", "empty")

    def listing(self, bucket, after):
        """(objects, common prefixes, the last key if there are more)"""
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        most = min(int(self.query.get("max-keys") or self.query.get("maxResults") or PAGE), PAGE)
        objects, prefixes, count, last = [], [], 0, None
        with self.store.lock:
            keys = sorted(self.store.buckets[bucket])
            for key in keys:
                if not key.startswith(prefix) or key <= after:
                    continue
                if count == most:
                    return objects, prefixes, last
                cut = key.find(delimiter, len(prefix)) if delimiter else -1
                if cut < 0:
                    objects.append((key, self.store.buckets[bucket][key]))
                    count += 1
                elif (folder := key[:cut + len(delimiter)]) not in prefixes:
                    prefixes.append(folder)
                    count += 1
                last = key
        return objects, prefixes, None

    # Requests.
    def do_GET(self):
        if self.begin():
            self.gcs_get() if self.is_gcs() else self.s3_get()

    do_HEAD = do_GET

    def s3_get(self):
        bucket, key = self.object_name()
        if key:
            found = self.find(bucket, key)
            return found and self.answer_object(found)
        with self.store.lock:
            known = bucket in self.store.buckets
        if not known:
            return self.fail(404, "NoSuchBucket")
        if self.command == "HEAD":
            return self.answer(200, headers=[("x-amz-bucket-region", "us-east-1")])
        if "uploads" in self.query:
            with self.store.lock:
                open_uploads = [(name[1], upload) for upload, name in self.store.upload_names.items()
                                if upload in self.store.uploads and name[0] == bucket]
            rows = "".join(f"<Upload><Key>{escape(k, {chr(13): '&#13;'})}</Key><UploadId>{upload}</UploadId><Initiated>"
                           f"{self.store.upload_times.get(upload, '2010-11-10T20:48:33.000Z')}</Initiated></Upload>"
                           for k, upload in open_uploads if k.startswith(self.query.get("prefix", "")))
            return self.answer(200, f"<ListMultipartUploadsResult {NAMESPACE}><Bucket>{bucket}</Bucket>{rows}"
                               "</ListMultipartUploadsResult>".encode())
        if self.answers_page():
            return None
        token = self.query.get("continuation-token") or self.query.get("start-after") or ""
        objects, prefixes, last = self.listing(bucket, base64.b64decode(token).decode() if token else "")
        more = "" if last is None else f"<NextContinuationToken>{base64.b64encode(last.encode()).decode()}</NextContinuationToken>"
        rows = "".join(f"<Contents><Key>{escape(k)}</Key><LastModified>{o.iso()}</LastModified><ETag>&quot;{o.etag}&quot;</ETag>"
                       f"<Size>{len(o.content)}</Size></Contents>" for k, o in objects)
        rows += "".join(f"<CommonPrefixes><Prefix>{escape(p)}</Prefix></CommonPrefixes>" for p in prefixes)
        self.answer(200, f"<?xml version='1.0'?><ListBucketResult {NAMESPACE}><Name>{bucket}</Name><Prefix>"
                    f"{escape(self.query.get('prefix', ''))}</Prefix><KeyCount>{len(objects) + len(prefixes)}</KeyCount>"
                    f"<MaxKeys>{PAGE}</MaxKeys><IsTruncated>{'true' if last else 'false'}</IsTruncated>{more}{rows}"
                    "</ListBucketResult>".encode())

    def gcs_resource(self, bucket, key, found):
        return {"kind": "storage#object", "bucket": bucket, "name": key, "id": f"{bucket}/{key}/{found.generation}",
                "generation": str(found.generation), "metageneration": "1", "size": str(len(found.content)),
                "timeCreated": found.iso(), "updated": found.iso(), "etag": found.etag, "storageClass": "STANDARD",
                "md5Hash": base64.b64encode(hashlib.md5(found.content).digest()).decode()}

    def gcs_get(self):
        bucket_only = re.fullmatch(r"/storage/v1/b/([^/]+)", self.url_path)
        listing = re.fullmatch(r"/storage/v1/b/([^/]+)/o/?", self.url_path)
        bucket = (bucket_only or listing)[1] if bucket_only or listing else self.object_name()[0]
        with self.store.lock:
            if bucket not in self.store.buckets:
                return self.fail(404, "NoSuchBucket")
        if bucket_only:
            return self.answer_json({"kind": "storage#bucket", "name": bucket, "id": bucket, "location": "US",
                                     "timeCreated": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z"})
        if listing and self.answers_page():
            return None
        if listing:
            token = self.query.get("pageToken", "")
            objects, prefixes, last = self.listing(bucket, base64.b64decode(token).decode() if token else "")
            answer = {"kind": "storage#objects", "items": [self.gcs_resource(bucket, k, o) for k, o in objects],
                      "prefixes": prefixes}
            if last is not None:
                answer["nextPageToken"] = base64.b64encode(last.encode()).decode()
            return self.answer_json(answer)
        bucket, key = self.object_name()
        found = self.find(bucket, key)
        if not found:
            return None
        wanted = self.query.get("generation")
        if wanted and wanted != str(found.generation):
            return self.fail(404, "NoSuchGeneration")
        if self.query.get("alt") == "media":
            return self.answer_object(found, [("x-goog-generation", str(found.generation))])
        return self.answer_json(self.gcs_resource(bucket, key, found))

    def do_PUT(self):
        if not self.begin():
            return None
        if self.is_gcs():
            return self.gcs_upload_part()
        bucket, key = self.object_name()
        if not key:
            with self.store.lock:
                self.store.buckets.setdefault(bucket, {})
            return self.answer(200)
        with self.store.lock:
            if bucket not in self.store.buckets:
                return self.fail(404, "NoSuchBucket")
        etag = f'"{hashlib.md5(self.body).hexdigest()}"'
        if "uploadId" in self.query:
            with self.store.lock:
                self.store.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = self.body
        elif not self.swallows():
            self.store.put(bucket, key, self.body)
        self.answer(200, headers=[("ETag", etag)])

    def do_POST(self):
        if not self.begin():
            return None
        if self.is_gcs():
            return self.gcs_upload()
        bucket, key = self.object_name()
        if "uploads" in self.query:
            upload = os.urandom(8).hex()
            with self.store.lock:
                self.store.uploads[upload] = {}
                self.store.upload_names[upload] = (bucket, key)
                self.store.upload_times[upload] = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
            return self.answer(200, f"<InitiateMultipartUploadResult {NAMESPACE}><Bucket>{bucket}</Bucket><Key>{escape(key)}"
                               f"</Key><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode())
        if "uploadId" in self.query:
            with self.store.lock:
                parts = self.store.uploads.pop(self.query["uploadId"])
            if not self.swallows():
                self.store.put_parts(bucket, key, [parts[number] for number in sorted(parts)])
            return self.answer(200, f"<CompleteMultipartUploadResult {NAMESPACE}><Key>{escape(key)}</Key><ETag>x</ETag>"
                               "</CompleteMultipartUploadResult>".encode())
        if "delete" in self.query:
            gone = re.findall(r"<Key>(.*?)</Key>", self.body.decode(), re.S)
            for name in gone if not self.swallows() else []:
                self.store.delete(bucket, name)
            rows = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in gone)
            return self.answer(200, f"<DeleteResult {NAMESPACE}>{rows}</DeleteResult>".encode())
        return self.fail(400, "BadRequest")

    def gcs_upload(self):
        bucket = re.match(r"/upload/storage/v1/b/([^/]+)/o", self.url_path)[1]
        kind = self.query.get("uploadType")
        if kind == "resumable":
            name = self.query.get("name") or json.loads(self.body)["name"]
            upload = os.urandom(8).hex()
            with self.store.lock:
                self.store.uploads[upload] = [bucket, name, b""]
            where = f"http://{self.headers['Host']}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={upload}"
            return self.answer(200, headers=[("Location", where)])
        if kind == "multipart":
            boundary = re.search(r'boundary="?([^";]+)', self.headers["Content-Type"])[1]
            parts = self.body.split(b"--" + boundary.encode())
            resource = json.loads(parts[1].partition(b"\r\n\r\n")[2])
            name, content = resource["name"], parts[2].partition(b"\r\n\r\n")[2][:-2]
        else:
            name, content = self.query["name"], self.body
        self.store.put(bucket, name, content)
        return self.answer_json(self.gcs_resource(bucket, name, self.store.buckets[bucket][name]))

    def gcs_upload_part(self):
        upload = self.query["upload_id"]
        with self.store.lock:
            bucket, name, so_far = self.store.uploads[upload]
        asked = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", self.headers.get("Content-Range", ""))
        if asked and asked[1]:
            so_far = so_far[:int(asked[1])] + self.body
        elif asked is None:
            so_far = self.body
        with self.store.lock:
            self.store.uploads[upload][2] = so_far
        whole = asked is None or (asked[3] != "*" and len(so_far) == int(asked[3]))
        if whole:
            self.store.put(bucket, name, so_far)
            return self.answer_json(self.gcs_resource(bucket, name, self.store.buckets[bucket][name]))
        headers = [("Range", f"bytes=0-{len(so_far) - 1}")] if so_far else []
        return self.answer(308, headers=headers)

    def do_DELETE(self):
        if not self.begin():
            return None
        if "uploadId" in self.query or "upload_id" in self.query:
            upload = self.query.get("uploadId") or self.query.get("upload_id")
            if self.store.upload_names.get(upload, self.object_name()) != self.object_name():
                return self.fail(404, "NoSuchUpload")
            with self.store.lock:
                self.store.uploads.pop(upload, None)
            return self.answer(204)
        bucket, key = self.object_name()
        if not self.swallows():
            self.store.delete(bucket, key)
        return self.answer(204)


def main():
    parser = argparse.ArgumentParser(description="Serves a folder as an S3 and GCS bucket, from memory.")
    parser.add_argument("--folder")
    parser.add_argument("--bucket", default="data")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--mb-per-s", type=float, default=0)
    options = parser.parse_args()
    with ObjectServer(options.port, options.latency_ms / 1e3, options.mb_per_s * 1e6) as server:
        server.buckets[options.bucket] = {}
        if options.folder:
            server.put_folder(options.bucket, "", options.folder)
        print(f"{server.url} serves {len(server.keys(options.bucket))} objects in the bucket {options.bucket}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
