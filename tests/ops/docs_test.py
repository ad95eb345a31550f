"""What docs/operations.md says of alerts, metrics and tuning pairs, held against the files that do it."""
import json
import re
import unittest

import yaml

import chart
from chart import MATRIX, objects, one, pods, variables

MANUAL = (chart.ROOT / "docs/operations.md").read_text(encoding="utf-8")
ALERTS = yaml.safe_load((chart.CHART / "files/alerts.yaml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((chart.CHART / "files/dashboard.json").read_text(encoding="utf-8"))
METRIC = re.compile(r"agentchat_[a-z0-9_]+")


def section(title, level=2):
    marks = "#" * level
    return re.search(rf"^{marks} {re.escape(title)}\n(.*?)(?=^#{{1,{level}}} |\Z)", MANUAL, re.MULTILINE | re.DOTALL).group(1)


def anchors():
    titles = re.findall(r"^#+ (.+)$", MANUAL, re.MULTILINE)
    return [re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles]


def documented():
    """Every metric of the manual's table, with the names that its type makes of it."""
    names = {}
    for line in section("Metrics").splitlines():
        if line.startswith("| `agentchat_"):
            metrics, kind, labels = [cell.strip() for cell in line.split("|")[1:4]]
            suffixes = ("_bucket", "_count", "_sum") if kind == "histogram" else ("",)
            for name in METRIC.findall(metrics):
                names.update({name + suffix: set(re.findall(r"`(\w+)`", labels)) for suffix in suffixes})
    return names


class Alerts(unittest.TestCase):
    def alerts(self):
        return [rule for group in ALERTS["groups"] for rule in group["rules"]]

    def test_each_has_its_runbook(self):
        titles = anchors()
        self.assertEqual(len(titles), len(set(titles)))
        for alert in self.alerts():
            with self.subTest(alert["alert"]):
                page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
                self.assertEqual(page, "docs/operations.md")
                self.assertEqual(anchor, alert["alert"].lower())
                self.assertIn(anchor, titles)
                self.assertGreater(len(section(alert["alert"], 3).split()), 20)
                self.assertIn(alert["labels"]["severity"], ("page", "ticket"))

    def test_each_runbook_has_its_alert(self):
        runbooks = re.findall(r"^### (AgentChat\w+)$", MANUAL, re.MULTILINE)
        self.assertEqual(sorted(runbooks), sorted(alert["alert"] for alert in self.alerts()))

    def test_each_is_tested_both_ways(self):
        tests = yaml.safe_load((chart.ROOT / "tests/ops/alerts_test.yaml").read_text(encoding="utf-8"))["tests"]
        fires, quiet = set(), set()
        for test in tests:
            for case in test["alert_rule_test"]:
                (fires if case["exp_alerts"] else quiet).add(case["alertname"])
        names = {alert["alert"] for alert in self.alerts()}
        self.assertEqual((fires, quiet), (names, names))

    def test_links_within_the_manual_lead_somewhere(self):
        titles = anchors()
        for anchor in re.findall(r"\]\(#([a-z0-9-]+)\)", MANUAL):
            self.assertIn(anchor, titles)


class Metrics(unittest.TestCase):
    def queries(self):
        found = [alert["expr"] for group in ALERTS["groups"] for alert in group["rules"]]
        for panel in DASHBOARD["panels"]:
            found += [target["expr"] for target in panel.get("targets", [])]
        return found

    def test_alerts_and_dashboard_use_documented_metrics_and_labels(self):
        known = documented()
        self.assertGreater(len(known), 30)
        common = {"le", "namespace", "pod", "instance", "job"}
        for query in self.queries():
            for name in METRIC.findall(query):
                self.assertIn(name, known, query)
            labels = set(re.findall(r"by \(([^)]*)\)", query))
            labels = {label.strip() for group in labels for label in group.split(",")}
            labels |= set(re.findall(r"(\w+)(?:=|!=|=~|!~)\"", query))
            allowed = common.union(*(known[name] for name in METRIC.findall(query)))
            self.assertLessEqual(labels, allowed, query)

    def test_every_documented_metric_is_on_the_dashboard(self):
        shown = {name for panel in DASHBOARD["panels"] for target in panel.get("targets", []) for name in METRIC.findall(target["expr"])}
        bases = {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}
        wanted = {re.sub(r"_(bucket|count|sum)$", "", name) for name in documented()}
        self.assertEqual(wanted - bases, set())

    def test_the_dashboard_fits_together(self):
        panels = DASHBOARD["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells
            for target in panel.get("targets", []):
                self.assertEqual(target["datasource"]["uid"], "${datasource}")


def nginx(setting):
    text = (chart.ROOT / "web/nginx.conf").read_text(encoding="utf-8")
    found = re.search(rf"^ *{setting} ([0-9]+)(s|m)?;", text, re.MULTILINE)
    return int(found.group(1)) if found else None


def ingress(setting):
    notes = objects("full")["Ingress", "chat-agentchat"]["metadata"]["annotations"]
    return int(re.sub(r"[a-z]", "", notes[f"nginx.ingress.kubernetes.io/{setting}"]))


class Pairs(unittest.TestCase):
    """Every row of *Pairs that must agree*, in the chart and in compose.yaml."""

    def compose(self):
        return yaml.safe_load((chart.ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]

    def settings(self, name, component):
        return {key: int(value) for key, value in variables(name, component).items() if value.isdigit()}

    def ack_wait(self):
        for name in MATRIX:
            values = {component: self.settings(name, component)["ACK_WAIT_MS"] for component in ("gateway", "worker")}
            if "chat-agentchat-migrate" in pods(name):
                values["migrate"] = self.settings(name, "migrate")["ACK_WAIT_MS"]
            self.assertEqual(len(set(values.values())), 1, name)

    def heartbeat(self):
        for name in MATRIX:
            worker = self.settings(name, "worker")
            self.assertLessEqual(2 * worker["HEARTBEAT_MS"], min(worker["ACK_WAIT_MS"], worker["LEASE_MS"]))

    def lease(self):
        for name in MATRIX:
            worker = self.settings(name, "worker")
            self.assertLessEqual(worker["LEASE_MS"], worker["ACK_WAIT_MS"])

    def grace(self):
        for name in MATRIX:
            pod = pods(name)["chat-agentchat-worker"]
            stop = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
            self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], stop + self.settings(name, "worker")["DRAIN_S"] + 15)
            pod = pods(name)["chat-agentchat-gateway"]
            stop = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
            gateway = self.settings(name, "gateway")
            self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], stop + gateway["GATEWAY_NOTICE_MS"] / 1000 + gateway["GATEWAY_GRACE_S"])
        default = int(re.search(r"\| `DRAIN_S` \| (\d+)", MANUAL).group(1))
        for name, service in self.compose().items():
            if name.startswith("worker"):
                self.assertGreaterEqual(int(service["stop_grace_period"].rstrip("s")), default + 15)

    def memory(self):
        mebibytes = {"Mi": 1, "Gi": 1024, "m": 1, "g": 1024}

        def covers(limit, readers):
            number, unit = re.fullmatch(r"(\d+)([A-Za-z]+)", limit).groups()
            self.assertGreaterEqual(int(number) * mebibytes[unit], 256 + 256 * readers)

        for name in MATRIX:
            container = pods(name)["chat-agentchat-worker"]["containers"][0]
            covers(container["resources"]["limits"]["memory"], self.settings(name, "worker")["DOCUMENT_READERS"])
        default = int(re.search(r"\| `DOCUMENT_READERS` \| (\d+)", MANUAL).group(1))
        limits = [service["mem_limit"] for name, service in self.compose().items() if name.startswith("worker")]
        self.assertEqual(len(limits), 2)
        for limit in limits:
            covers(limit, default)

    def read_timeout(self):
        self.assertGreater(ingress("proxy-read-timeout"), 15)
        self.assertGreater(nginx("proxy_read_timeout"), 15)

    def body_limit(self):
        self.assertGreater(ingress("proxy-body-size"), 50)
        self.assertGreater(nginx("client_max_body_size"), 50)

    ROWS = {
        "`ACK_WAIT_MS` of `migrate`": ack_wait,
        "`HEARTBEAT_MS` ≤ half": heartbeat,
        "`LEASE_MS` ≤ `ACK_WAIT_MS`": lease,
        "grace of the orchestrator": grace,
        "memory limit of a worker": memory,
        "proxy read timeout": read_timeout,
        "proxy body limit": body_limit,
    }

    def test_every_row_is_kept(self):
        rows = re.findall(r"^\| ([^|]+) \|", section("Pairs that must agree"), re.MULTILINE)[1:]
        unknown = [row for row in rows if not any(row.startswith(start) for start in self.ROWS)]
        self.assertEqual(unknown, [], "a pair without a check")
        for start, check in self.ROWS.items():
            with self.subTest(start):
                self.assertTrue([row for row in rows if row.startswith(start)])
                check(self)

    def test_connections_outlive_the_proxies_keep_alive(self):
        idle = int(variables("full", "gateway")["GATEWAY_IDLE_S"])
        self.assertGreater(idle, ingress("upstream-keepalive-timeout"))
        self.assertGreater(idle, nginx("keepalive_timeout") or 60)

    def test_a_drained_page_proxy_has_time_for_its_streams(self):
        web = one("minimal", "Deployment", "web")["spec"]["template"]["spec"]
        self.assertGreater(web["terminationGracePeriodSeconds"], (nginx("worker_shutdown_timeout") or 0) + 5)


if __name__ == "__main__":
    unittest.main()
