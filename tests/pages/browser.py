"""A headless Chromium, driven over its pipe (--remote-debugging-pipe: JSON messages, each ended by a zero byte), so that
nothing but the browser itself has to be installed."""

import base64
import json
import os
import select
import subprocess
import tempfile
import time

SECONDS = 60


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="verbena-pages-", ignore_cleanup_errors=True)
        to_browser, self.out = os.pipe()
        self.back, from_browser = os.pipe()

        def descriptors():  # the pipe is 3 and 4
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", f"--user-data-dir={self.folder.name}",
             "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=descriptors)  # pylint: disable=subprocess-popen-preexec-fn
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session = b"", 0, None
        self.events = []
        target = next(one for one in self.ask("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")

    def close(self):
        self.process.terminate()
        self.process.wait(SECONDS)
        os.close(self.out)
        os.close(self.back)
        self.folder.cleanup()

    def message(self):
        until = time.monotonic() + SECONDS
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.back], [], [], max(0, until - time.monotonic()))
            more = os.read(self.back, 1 << 20) if ready else b""
            if not more:
                raise RuntimeError("the browser does not answer")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def open(self, path, width, height, scheme):
        self.events.clear()
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Page.navigate", url="file://" + path)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())

    def value(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def complaints(self):
        """What the console says, and what the page asked for beyond itself."""
        said = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                said.append(json.dumps(parameters)[:400])
            if event.get("method") == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(
                    ("file:", "data:")):
                said.append(parameters["request"]["url"])
        return said

    def picture(self, file, height=None):
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height or 6000), "scale": 1}
        data = self.ask("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        with open(file, "wb") as out:
            out.write(base64.b64decode(data))
