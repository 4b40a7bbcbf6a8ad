#!/usr/bin/env python3
"""What promtool and amtool cannot check: that no alert lacks a runbook or a test, and which alert mutes which.

The last is asked of an Alertmanager that is started on loopback with the shipped example and stopped again: it is given
all incidents of inhibition.txt at once. It is stopped long before it would send anything. Needs Python and
Alertmanager 0.25 or newer; takes some seconds.
"""

import datetime
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

TESTS = pathlib.Path(__file__).resolve().parent
ALERTS = TESTS.parent
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation", "How to tune or silence"]
PATIENCE = 20  # seconds


def rules():
    """Severity of each alert, by name."""
    found = {}
    for path in sorted([*ALERTS.glob("*.rules.yml"), *ALERTS.glob("*.example.yml")]):
        text = path.read_text()
        for block in re.split(r"\n {6}- alert: ", text)[1:]:
            name = block.split("\n", 1)[0].strip()
            severity = re.search(r"severity: (\w+)", block)[1]
            runbook = re.search(r"runbook_url: \S+/alerts/runbooks/(\w+)\.md\n", block + "\n")
            assert name not in found, f"{path.name}: {name} stands twice"
            assert runbook and runbook[1] == name, f"{path.name}: {name}: its runbook_url names another alert, or none"
            found[name] = severity
    return found


def incidents():
    """(title, notifications, [(receiver, labels)]) of each incident."""
    found = []
    for number, line in enumerate((TESTS / "inhibition.txt").read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            count, title = line.split(" ", 1)
            found.append((f"inhibition.txt:{number}: {title}", int(count), []))
            continue
        receiver, name, severity, *labels = line.split()
        labels = dict(label.split("=", 1) for label in labels)
        labels |= {"alertname": name, "severity": severity, "cluster": str(len(found))}
        found[-1][2].append((receiver, labels))
    return found


def complete(severities, cases):
    """Each alert has a runbook of all sections, a promtool test, and a place in an incident with its severity."""
    wrong = []
    tested = "".join(path.read_text() for path in TESTS.glob("*.test.yml"))
    placed = {}
    for title, _, alerts in cases:
        for _, labels in alerts:
            name = labels["alertname"]
            placed[name] = True
            if severities.get(name) != labels["severity"]:
                wrong.append(f"{title}: {name} is {severities.get(name)} in the rules")
    for name, severity in severities.items():
        if name not in placed:
            wrong.append(f"inhibition.txt: no incident has {name}")
        if severity != "none" and f"alertname: {name}\n" not in tested:
            wrong.append(f"no *.test.yml tests {name}")
        runbook = ALERTS / "runbooks" / f"{name}.md"
        text = runbook.read_text() if runbook.exists() else ""
        if text.splitlines()[:1] != [f"# {name}"]:
            wrong.append(f"runbooks/{name}.md: absent, or its first line is not the alert's name")
        if re.findall(r"^## (.*)$", text, re.M) != SECTIONS:
            wrong.append(f"runbooks/{name}.md: its sections should be {', '.join(SECTIONS)}")
    for path in (ALERTS / "runbooks").glob("*.md"):
        if path.stem not in severities:
            wrong.append(f"runbooks/{path.name}: there is no such alert")
    return wrong


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.loads(answer.read() or b"null")


def muted(cases, address):
    """Asks the Alertmanager at `address` what becomes of each incident."""
    api = f"http://{address}/api/v2"
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            ask(f"{api}/status")
            break
        except OSError:
            if time.monotonic() > deadline:
                return ["Alertmanager does not answer"]
            time.sleep(0.1)
    now = datetime.datetime.now(datetime.timezone.utc)
    posted = [labels for _, _, alerts in cases for _, labels in alerts]
    until = (now + datetime.timedelta(hours=1)).isoformat()
    ask(f"{api}/alerts", [{"labels": labels, "startsAt": now.isoformat(), "endsAt": until} for labels in posted])
    while len(told := ask(f"{api}/alerts")) < len(posted) and time.monotonic() < deadline:
        time.sleep(0.1)

    key = lambda labels: tuple(sorted(labels.items()))
    told = {key(alert["labels"]): alert for alert in told}
    notifications = {}
    for group in ask(f"{api}/alerts/groups"):
        live = [alert for alert in group["alerts"] if alert["status"]["state"] != "suppressed"]
        if live and group["receiver"]["name"] != "nobody":
            cluster = live[0]["labels"]["cluster"]
            notifications[cluster] = notifications.get(cluster, 0) + 1
    wrong = []
    for number, (title, count, alerts) in enumerate(cases, 1):
        for receiver, labels in alerts:
            alert = told[key(labels)]
            suppressed = alert["status"]["state"] == "suppressed"
            heard = "muted" if suppressed else ", ".join(r["name"] for r in alert["receivers"])
            if heard != receiver:
                wrong.append(f"{title}: {labels['alertname']} of {labels.get('run', 'no run')}: {heard}, not {receiver}")
        if notifications.get(str(number), 0) != count:
            wrong.append(f"{title}: {notifications.get(str(number), 0)} notifications, not {count}")
    return wrong


def main():
    cases = incidents()
    wrong = complete(rules(), cases)
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        print("check.py: no Alertmanager here; what mutes what is not checked", file=sys.stderr)
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        with tempfile.TemporaryDirectory() as folder:
            running = subprocess.Popen(
                [
                    program,
                    f"--config.file={ALERTS / 'alertmanager' / 'alertmanager.example.yml'}",
                    f"--storage.path={folder}",
                    f"--web.listen-address={address}",
                    "--cluster.listen-address=",
                    "--log.level=error",
                ]
            )
            try:
                wrong += muted(cases, address)
            finally:
                running.kill()
                running.wait()
    for line in wrong:
        print(line)
    if wrong:
        sys.exit(1)
    print(f"{len(rules())} alerts have a runbook, a test and a place; {len(cases)} incidents are told as they should")


if __name__ == "__main__":
    main()
